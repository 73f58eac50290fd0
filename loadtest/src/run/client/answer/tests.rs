use super::*;

fn wanted(stream: bool) -> Wanted {
    Wanted {
        id: "r-1".to_owned(),
        body: bytes::Bytes::new(),
        stream,
        answer_tokens: 2,
        keep_text: true,
    }
}

fn token(id: &str) -> String {
    format!("data: {{\"id\":\"{id}\",\"choices\":[{{\"delta\":{{\"content\":\"a \"}}}}]}}\n\n")
}

fn usage(completion: u64) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-r-1\",\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{completion},\"prompt_tokens_details\":{{\"cached_tokens\":4}}}}}}\n\n"
    )
}

fn read(stream: bool, engines: Engines, text: &str) -> Result<Answer, Failure> {
    let wanted = wanted(stream);
    let mut reader = Reader::new(&wanted, engines);
    let now = Instant::now();
    reader.feed(text.as_bytes(), now)?;
    reader.end(now)
}

#[test]
fn a_whole_stream_is_read_and_counted() {
    let mine = token("chatcmpl-r-1");
    let text = format!("{mine}{mine}{}data: [DONE]\n\n", usage(2));
    let answer = read(true, Engines::Simulated, &text).unwrap();
    assert_eq!(answer.text, "a a ");
    assert_eq!(answer.gaps.len(), 1);
    let usage = answer.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.cached_tokens()), (9, Some(4)));
}

#[test]
fn answers_that_are_not_right_are_told_apart() {
    let (mine, other) = (token("chatcmpl-r-1"), token("chatcmpl-r-2"));
    let end = "data: [DONE]\n\n";
    let fits = usage(2);
    let short = usage(1);
    let check = |engines, text: &str, wanted: Option<Kind>| {
        let found = read(true, engines, text).err().map(|failure| failure.kind);
        assert_eq!(found, wanted, "{text}");
    };
    let simulated = Engines::Simulated;
    check(
        simulated,
        &format!("{mine}{mine}{fits}"),
        Some(Kind::CutShort),
    );
    check(
        simulated,
        &format!("{other}{mine}{fits}{end}"),
        Some(Kind::WrongAnswer),
    );
    check(
        simulated,
        &format!("{mine}{other}{fits}{end}"),
        Some(Kind::WrongAnswer),
    );
    check(
        simulated,
        &format!("{mine}{fits}{end}"),
        Some(Kind::WrongAnswer),
    );
    check(
        simulated,
        &format!("{mine}{mine}{short}{end}"),
        Some(Kind::WrongAnswer),
    );
    check(
        simulated,
        &format!("{mine}{end}{mine}"),
        Some(Kind::Malformed),
    );
    check(simulated, "data: {\n\n", Some(Kind::Malformed));
    check(
        simulated,
        "data: {\"error\":{}}\n\n",
        Some(Kind::ErrorEvent),
    );
    // A real engine may stop early and choose its ids, but not two for one answer.
    check(Engines::Unknown, &format!("{other}{end}"), None);
    check(
        Engines::Unknown,
        &format!("{other}{mine}{end}"),
        Some(Kind::WrongAnswer),
    );
}

#[test]
fn an_answer_in_one_piece_is_checked_as_well() {
    let text = "{\"id\":\"chatcmpl-r-1\",\"choices\":[{\"message\":{\"content\":\"a b\"}}],\"usage\":{\"completion_tokens\":2}}";
    let answer = read(false, Engines::Simulated, text).unwrap();
    assert_eq!(answer.text, "a b");
    assert!(answer.first_token.is_none());
    let failure = read(false, Engines::Simulated, &text[1..]).unwrap_err();
    assert_eq!(failure.kind, Kind::Malformed);
}
