use std::collections::VecDeque;

use super::super::engine::{ANSWER, EVENT};
use super::*;

/// What the other side sends, a piece each read; what is written is kept.
struct Script {
    pieces: VecDeque<Vec<u8>>,
    written: Vec<u8>,
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let piece = self.pieces.pop_front().unwrap_or_default();
        buffer[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn connection(pieces: &[&[u8]]) -> Connection<Script> {
    Connection::over(Script {
        pieces: pieces.iter().map(|piece| piece.to_vec()).collect(),
        written: Vec::new(),
    })
}

/// How many events came, or what was wrong.
fn exchange(pieces: &[&[u8]], events: u64) -> Result<u64, String> {
    let mut seen = 0;
    let mut connection = connection(pieces);
    let result = connection.exchange(b"request", events, |new| seen += new);
    assert_eq!(connection.stream.written, b"request");
    result.map(|()| seen).map_err(|error| format!("{error:#}"))
}

fn chunked(chunks: &[&str]) -> Vec<u8> {
    let mut text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    for chunk in chunks {
        text += &format!("{:x}\r\n{chunk}\r\n", chunk.len());
    }
    text += "0\r\n\r\n";
    text.into_bytes()
}

const DONE: &str = "data: [DONE]\n\n";

#[test]
fn events_are_counted_wherever_the_answer_is_cut() {
    let answer = chunked(&[EVENT, EVENT, EVENT, DONE]);
    for cut in 1..answer.len() {
        let (front, back) = answer.split_at(cut);
        assert_eq!(exchange(&[front, back], 3), Ok(3), "cut at {cut}");
    }
    let single: Vec<&[u8]> = answer.chunks(1).collect();
    assert_eq!(exchange(&single, 3), Ok(3), "byte by byte");
}

#[test]
fn events_are_counted_wherever_chunks_begin() {
    let text = format!("{EVENT}{EVENT}{DONE}");
    for cut in 1..text.len() {
        let (front, back) = text.split_at(cut);
        assert_eq!(
            exchange(&[&chunked(&[front, back])], 2),
            Ok(2),
            "cut at {cut}"
        );
    }
}

#[test]
fn events_may_be_written_anew() {
    let anew = concat!(
        ": comment\n\n",
        "data: {\"choices\": [{\"delta\": {\"content\": \" token\", \"role\": \"assistant\"}}], \"id\": \"x\"}\n\n",
        "event: message\ndata:{\"choices\":[{\"delta\":{\"content\":\" token token\"}}]}\n\n",
    );
    assert_eq!(exchange(&[&chunked(&[anew, DONE])], 3), Ok(3));
}

#[test]
fn events_lost_or_added_are_an_error() {
    let problem = exchange(&[&chunked(&[EVENT, DONE])], 2).unwrap_err();
    assert!(problem.starts_with("1 of 2 events came"), "{problem}");
    let problem = exchange(&[&chunked(&[EVENT, EVENT, DONE])], 1).unwrap_err();
    assert!(problem.starts_with("2 of 1 events came"), "{problem}");
    let problem = exchange(&[&chunked(&[EVENT])], 1).unwrap_err();
    assert!(
        problem.contains("without \"data: [DONE]\""),
        "the engine's end is missing: {problem}"
    );
}

#[test]
fn a_stream_that_breaks_off_is_an_error() {
    let whole = chunked(&[EVENT, DONE]);
    let broken = &whole[..whole.len() - 5];
    let problem = exchange(&[broken], 1).unwrap_err();
    assert_eq!(problem, "the connection ended inside a stream");
    let problem = exchange(&[], 1).unwrap_err();
    assert_eq!(problem, "the connection ended before the answer");
}

#[test]
fn a_whole_answer_is_read_with_a_length_or_in_chunks() {
    let answer = ANSWER.as_bytes();
    for cut in 1..answer.len() {
        let (front, back) = answer.split_at(cut);
        assert_eq!(exchange(&[front, back], 0), Ok(0), "cut at {cut}");
    }
    let (_, body) = ANSWER.split_once("\r\n\r\n").unwrap();
    let (front, back) = body.split_at(40);
    assert_eq!(exchange(&[&chunked(&[front, back])], 0), Ok(0));
}

#[test]
fn another_answer_is_an_error() {
    let refused = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 7\r\n\r\nno pods";
    assert_eq!(exchange(&[refused], 0).unwrap_err(), "status 503: no pods");
    let other = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(
        exchange(&[other], 0).unwrap_err(),
        "an answer that is not the engine's: {}"
    );
    assert_eq!(
        exchange(&[ANSWER.as_bytes()], 4).unwrap_err(),
        "a stream was asked for, one answer came"
    );
}

#[test]
fn requests_are_read_one_after_the_other() {
    let first = b"POST /v1/a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let second = b"GET /v1/b HTTP/1.1\r\n\r\n";
    let mut connection = connection(&[&first[..30], &first[30..], b"ab", b"c", second]);
    let head = connection.read_request().unwrap().unwrap();
    assert!(!head.is_get && head.expects_continue);
    assert_eq!(head.path, "/v1/a");
    connection.read_body(&head).unwrap();
    assert_eq!(connection.body(&head), b"abc");
    connection.request_done(&head);
    let head = connection.read_request().unwrap().unwrap();
    assert!(head.is_get && !head.expects_continue);
    assert_eq!(head.path, "/v1/b");
    connection.request_done(&head);
    assert!(
        connection.read_request().unwrap().is_none(),
        "closed in between"
    );
}

#[test]
fn requests_that_break_off_or_come_in_chunks_are_an_error() {
    let read = |pieces: &[&[u8]]| {
        let mut connection = connection(pieces);
        match connection.read_request() {
            Ok(Some(head)) => connection.read_body(&head).map_err(|e| e.to_string()),
            Ok(None) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    };
    assert_eq!(
        read(&[b"POST / HTT"]).unwrap_err(),
        "the connection ended inside a request head"
    );
    assert_eq!(
        read(&[b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na"]).unwrap_err(),
        "the connection ended inside a request body"
    );
    let chunked = read(&[b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"]);
    assert!(chunked.unwrap_err().contains("in chunks"));
    assert_eq!(
        read(&[b"POST / HTTP/1.1\r\nContent-Length: ten\r\n\r\n"]).unwrap_err(),
        "Content-Length ten"
    );
}
