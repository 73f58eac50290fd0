use serde_json::Value;

use super::*;

fn scenario(workload: &str) -> Scenario {
    let text = format!(
        "{{seed: 11, duration: 1s, models: [a, b], target: {{}}, arrival: {{closed: {{concurrency: 1}}}}, workload: [{workload}]}}"
    );
    serde_yaml_ng::from_str(&text).unwrap()
}

fn traffic(workload: &str) -> Traffic {
    Traffic::new(&scenario(workload)).unwrap()
}

const SESSIONS: &str =
    "{sessions: {system: {count: 2, tokens: 30}, turns: 4, question_tokens: {from: 5, to: 9}}}";
const AGENTS: &str = "{agents: {system: {count: 3, tokens: 20}, tools: 2, steps: 3, result_tokens: {mean: 40}, tool_time: {mean: 1s}}}";

/// All bodies of a conversation whose every answer is `answer`.
fn bodies(traffic: &Traffic, number: u64, answer: &str) -> Vec<Value> {
    let mut conversation = traffic.conversation(number);
    let mut bodies = Vec::new();
    while let Some(turn) = conversation.next().unwrap() {
        bodies.push(serde_json::from_slice(&turn.body).unwrap());
        if turn.quotes_answer {
            conversation.answered(answer.to_owned());
        }
    }
    bodies
}

#[test]
fn the_seed_alone_decides_what_is_said_in_whatever_order() {
    let workload = format!("{SESSIONS}, {AGENTS}");
    let (one, two) = (traffic(&workload), traffic(&workload));
    let forward: Vec<_> = (0..20).map(|n| bodies(&one, n, "yes")).collect();
    let mut backward: Vec<_> = (0..20).rev().map(|n| bodies(&two, n, "yes")).collect();
    backward.reverse();
    assert_eq!(forward, backward);

    let mut other = scenario(&workload);
    other.seed = 12;
    let other = Traffic::new(&other).unwrap();
    assert_ne!(bodies(&one, 0, "yes"), bodies(&other, 0, "yes"));
}

#[test]
fn each_turn_of_a_session_begins_with_the_one_before_and_its_answer() {
    let bodies = bodies(&traffic(SESSIONS), 5, "an answer");
    assert_eq!(bodies.len(), 4);
    for pair in bodies.windows(2) {
        let messages = |body: &Value| body["messages"].as_array().unwrap().clone();
        let (before, after) = (messages(&pair[0]), messages(&pair[1]));
        assert_eq!(after.len(), before.len() + 2);
        assert_eq!(after[..before.len()], before);
        assert_eq!(after[before.len()]["role"], "assistant");
        assert_eq!(after[before.len()]["content"], "an answer");
        assert_eq!(after[before.len() + 1]["role"], "user");
    }
}

#[test]
fn an_agent_has_tools_and_every_result_answers_a_call() {
    let bodies = bodies(&traffic(AGENTS), 1, "I call");
    assert_eq!(bodies.len(), 3);
    for body in &bodies {
        assert_eq!(body["tools"].as_array().unwrap().len(), 2);
        assert_eq!(body["tools"], bodies[0]["tools"]);
    }
    let messages = bodies[2]["messages"].as_array().unwrap();
    let calls = messages
        .iter()
        .filter_map(|m| m["tool_calls"][0]["id"].as_str());
    let results = messages.iter().filter_map(|m| m["tool_call_id"].as_str());
    let (calls, results): (Vec<_>, Vec<_>) = (calls.collect(), results.collect());
    assert_eq!(calls, results);
    assert_eq!(calls.len(), 2);
}

#[test]
fn questions_about_a_document_share_it_and_nothing_else() {
    let traffic = traffic("{documents: {document: {count: 1, tokens: 50}, questions: 3}}");
    let bodies = bodies(&traffic, 0, "");
    assert_eq!(bodies.len(), 3);
    for body in &bodies {
        assert_eq!(body["messages"].as_array().unwrap().len(), 2);
        assert_eq!(body["messages"][0], bodies[0]["messages"][0]);
    }
    assert_ne!(bodies[0]["messages"][1], bodies[1]["messages"][1]);
}

#[test]
fn popularity_follows_zipf() {
    let traffic = traffic("{system_prompts: {system: {count: 100, tokens: 3, zipf: 1.0}}}");
    let mut counts = std::collections::HashMap::<String, u32>::new();
    for number in 0..20_000 {
        let body = &bodies(&traffic, number, "")[0];
        let prompt = body["messages"][0]["content"].as_str().unwrap();
        *counts.entry(prompt.to_owned()).or_default() += 1;
    }
    let mut counts: Vec<u32> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // The share of rank r is 1/r over the hundredth harmonic number, 5.187.
    for rank in [1, 2, 10] {
        let wanted = 20_000.0 / 5.187 / rank as f64;
        let found = f64::from(counts[rank - 1]);
        assert!(
            (found / wanted - 1.0).abs() < 0.15,
            "rank {rank}: {found}, not {wanted}"
        );
    }
}

#[test]
fn classes_come_by_their_weights_and_models_in_turn() {
    let system = "system_prompts: {system: {count: 1, tokens: 1}}";
    let traffic = traffic(&format!(
        "{{weight: 3, {system}}}, {{weight: 1, {system}}}, {{weight: 0, {system}}}"
    ));
    let mut counts = [0_u32; 3];
    for number in 0..4_000 {
        counts[traffic.conversation(number).class] += 1;
    }
    assert!((2_850..3_150).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts[2], 0);
    let models: Vec<_> = (0..3)
        .map(|n| bodies(&traffic, n, "")[0]["model"].clone())
        .collect();
    assert_eq!(models, ["a", "b", "a"]);
}

#[test]
fn a_text_has_exactly_its_tokens() {
    let mut random = generator(1, 0);
    for tokens in [0, 1, 5, 6, 7, 1_000] {
        assert_eq!(
            text::words(tokens, &mut random).len(),
            tokens * text::TOKEN_BYTES
        );
    }
}
