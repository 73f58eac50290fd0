//! Reading request bodies: what a request costs before it is routed.

use std::hint::black_box;
use std::io::Read;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;
use warmgate::request::{self, ParseOptions, PathKind, coding};

const SIZES: [usize; 4] = [1 << 10, 16 << 10, 128 << 10, 1 << 20];

/// A system message of a quarter, then turns of 2 KiB with some escapes.
fn chat(bytes: usize) -> Vec<u8> {
    let mut messages =
        vec![json!({"role": "system", "content": "You are helpful. ".repeat(bytes / 4 / 17)})];
    while messages.len() * 2048 < bytes * 3 / 4 {
        let turn = format!("turn {} says \"quoted\" and caf\u{e9}\n", messages.len());
        messages.push(json!({"role": "user", "content": turn.repeat(2048 / turn.len())}));
    }
    json!({"model": "m", "stream": true, "messages": messages})
        .to_string()
        .into_bytes()
}

fn completion(bytes: usize) -> Vec<u8> {
    json!({"model": "m", "prompt": "plain words ".repeat(bytes / 12)})
        .to_string()
        .into_bytes()
}

fn parse(criterion: &mut Criterion) {
    let options = ParseOptions {
        include_tools: true,
    };
    for (name, kind, body) in [
        (
            "parse/chat",
            PathKind::ChatCompletions,
            chat as fn(usize) -> Vec<u8>,
        ),
        ("parse/completion", PathKind::Completions, completion),
    ] {
        let mut group = criterion.benchmark_group(name);
        for size in SIZES {
            let body = body(size);
            group.throughput(Throughput::Bytes(body.len() as u64));
            group.bench_function(BenchmarkId::from_parameter(size >> 10), |bencher| {
                bencher.iter(|| {
                    request::parse(kind, None, black_box(&body), &options)
                        .map(|request| request.prompt.len())
                });
            });
        }
    }
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    let body = chat(128 << 10);
    let mut gzip = Vec::new();
    let level = flate2::Compression::default();
    let read = flate2::read::GzEncoder::new(&*body, level).read_to_end(&mut gzip);
    assert!(read.is_ok(), "memory takes all");
    let zstd = zstd::encode_all(&*body, 3).unwrap_or_default();
    let mut brotli = Vec::new();
    let read = brotli::CompressorReader::new(&*body, 4096, 5, 22).read_to_end(&mut brotli);
    assert!(read.is_ok(), "memory takes all");
    group.throughput(Throughput::Bytes(body.len() as u64));
    for (coding, coded) in [("gzip", gzip), ("zstd", zstd), ("br", brotli)] {
        group.bench_function(coding, |bencher| {
            bencher.iter(|| coding::decode(coding, black_box(&coded), 64 << 20))
        });
    }
}

criterion_group!(benches, parse, decode);
criterion_main!(benches);
