//! Nesting that would exhaust the stack of a reader that recurses.

use super::*;

use PathKind::*;

const DEPTH: usize = 100_000;
/// A fraction of what the gateway's threads have.
const STACK: usize = 256 << 10;

#[test]
fn no_depth_exhausts_the_stack() {
    let half = DEPTH / 2;
    let deep = format!("{}1{}", r#"[{"a":"#.repeat(half), "}]".repeat(half));
    let open = &deep[..deep.len() - 1];
    let bodies = vec![
        deep.clone(),
        open.to_owned(),
        r#"{"a":"#.repeat(DEPTH),
        says(&deep),
        says(&format!(
            r#"[{deep},{{"type":{deep}}},{{"type":"text","text":{deep}}}]"#
        )),
        chat(&format!("[{deep}]")),
        chat(&format!(r#"[{{"x":{deep},"content":"a"}}]"#)),
        format!(
            r#"{{"tools":[{{"function":{{"parameters":{deep}}}}}],{}"#,
            &says("1")[1..]
        ),
        format!(r#"{{"model":"m","x":{open}"#),
    ];
    let mut bodies: Vec<_> = bodies
        .into_iter()
        .map(|body| (ChatCompletions, body))
        .collect();
    bodies.push((
        Responses,
        format!(r#"{{"model":"m","input":[{{"content":{deep}}},{deep}]}}"#),
    ));
    for (kind, key) in [
        (ChatCompletions, "x"),
        (ChatCompletions, "model"),
        (ChatCompletions, "messages"),
        (ChatCompletions, "tools"),
        (ChatCompletions, "stream"),
        (ChatCompletions, "max_tokens"),
        (ChatCompletions, "cache_salt"),
        (Messages, "system"),
        (Responses, "instructions"),
        (Responses, "input"),
        (Completions, "prompt"),
        (Rerank, "query"),
        (Rerank, "documents"),
        (Classify, "input"),
    ] {
        let body = format!(r#"{{"{key}":{deep},"model":"m","messages":[{{}}],"input":"a"}}"#);
        bodies.push((kind, body));
    }
    let thread = std::thread::Builder::new().stack_size(STACK);
    let reader = thread.spawn(move || {
        for (kind, body) in &bodies {
            let _ = parse(*kind, None, body.as_bytes(), &WITH_TOOLS);
        }
        let _ = peek_model(bodies[0].1.as_bytes());
    });
    reader.unwrap().join().unwrap();
}
