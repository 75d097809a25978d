//! Mutated input: a corpus, damaged in ways that repeat from run to run. Nothing panics, and the laws hold.

use std::collections::BTreeMap;

use repository::data::ServedGraph;
use update_graph::v1::Served;
use update_graph::{Arch, Builder, GraphData, ReleaseMetadata, Version, graph_data, lint, release_list};

use super::{Corpus, SeededRng, gunzip};

/// Damages a text in one to four places: bytes turned, taken out, doubled, put in from the text itself or from a list of
/// what parsers stumble over.
fn mutate(original: &[u8], rng: &mut SeededRng) -> Vec<u8> {
    const SPECIAL: &[&str] = &[
        "\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\n",
        "\\",
        "null",
        "-1",
        "1e999",
        "\u{0}",
        "é",
        "\u{feff}",
        "&a ",
        "*a",
        "!!",
        "|",
        ">",
        "- ",
        "#",
        "'",
        "\t",
        "4.1.0",
        "+",
        "-",
        ".",
        "18446744073709551616",
        "---\n",
        "%",
        "<<: ",
        "? ",
    ];
    let mut bytes = original.to_vec();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + 1 + rng.below(12)).min(bytes.len());
        match rng.below(6) {
            0 if at < bytes.len() => bytes[at] = u8::try_from(rng.below(256)).unwrap(),
            1 => drop(bytes.drain(at.min(end)..end)),
            2 => {
                let copy = bytes[at.min(end)..end].to_vec();
                let to = rng.below(bytes.len() + 1);
                drop(bytes.splice(to..to, copy));
            }
            3 => bytes.truncate(at),
            _ => {
                let special = SPECIAL[rng.below(SPECIAL.len())].bytes();
                drop(bytes.splice(at..at, special));
            }
        }
    }
    bytes
}

pub fn versions_that_are_damaged_are_refused_or_keep_the_laws(corpus: &Corpus) {
    let list = release_list::parse(&corpus.releases, &Arch::amd64()).unwrap();
    let versions: Vec<_> = list
        .releases
        .iter()
        .map(|r| r.version.with_arch(&r.arch))
        .collect();
    let mut rng = SeededRng::new(1);
    let mut known: Vec<Version> = Vec::new();
    for _ in 0..60_000 {
        let text = mutate(versions[rng.below(versions.len())].as_bytes(), &mut rng);
        let Ok(text) = String::from_utf8(text) else {
            continue;
        };
        let Ok((version, arch)) = Version::split(&text) else {
            continue;
        };
        let told = arch.map_or_else(|| version.to_string(), |arch| version.with_arch(&arch));
        assert_eq!(told, text, "what is read is written alike");
        assert_eq!(Version::parse(&version.to_string()), Ok(version.clone()));
        if known.len() < 200 {
            known.push(version);
        }
    }
    assert!(known.len() == 200);
    known.sort();
    for pair in known.windows(2) {
        assert!(pair[0] <= pair[1] && (pair[0] == pair[1]) == (pair[0].to_string() == pair[1].to_string()));
    }
}

pub fn served_graphs_that_are_damaged_are_refused_or_keep_the_laws(corpus: &Corpus) {
    let arch = Arch::amd64();
    // Small enough for many tries: a few releases of a real body.
    let bodies = corpus.three.map(|channel| small_body(corpus, channel));
    let mut rng = SeededRng::new(2);
    let mut read = 0;
    for _ in 0..4_000 {
        let damaged = mutate(&bodies[rng.below(bodies.len())], &mut rng);
        let Ok(served) = Served::parse(&damaged, &arch) else {
            continue;
        };
        read += 1;
        let (graph, _) = Builder::new().served(served).build();
        let whole = graph.whole();
        let again = Served::parse(&whole, &arch).unwrap();
        assert!(again.problems.is_empty());
        let (again, _) = Builder::new().served(again).build();
        assert!(again.whole() == whole, "{}", String::from_utf8_lossy(&damaged));
        for channel in graph.channels().take(3) {
            ServedGraph::read(&graph.body(channel, &arch)).unwrap();
        }
    }
    assert!(read > 200, "{read}: the damage is too great to test anything");
}

/// The first nodes of a captured body with the edges among them.
fn small_body(corpus: &Corpus, channel: &str) -> Vec<u8> {
    let (graph, _) = Builder::new()
        .served(Served::parse(&corpus.expected[channel], &Arch::amd64()).unwrap())
        .build();
    let view = graph.view(Some(channel), &Arch::amd64());
    let start = view
        .releases()
        .nth(view.len() * 9 / 10)
        .unwrap()
        .version()
        .clone();
    view.reachable_from(&start).body()
}

pub fn release_lists_and_metadata_that_are_damaged_cost_themselves(corpus: &Corpus) {
    let text = std::str::from_utf8(&corpus.releases).unwrap();
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|l| l.trim_end_matches(','))
        .collect();
    let mut rng = SeededRng::new(3);
    let mut read = 0;
    for _ in 0..6_000 {
        let line = lines[rng.below(lines.len())];
        let damaged = mutate(format!("[{line}]").as_bytes(), &mut rng);
        if let Ok(list) = release_list::parse(&damaged, &Arch::amd64()) {
            read += 1;
            let (graph, _) = Builder::new().list(list).build();
            Served::parse(&graph.whole(), &Arch::amd64()).unwrap();
        }
        let document = line.replacen('{', r#"{"kind":"cincinnati-metadata-v0","#, 1);
        let _ = ReleaseMetadata::parse(&mutate(document.as_bytes(), &mut rng));
    }
    assert!(read > 500, "{read}");
}

pub fn graph_data_that_are_damaged_never_block_less(corpus: &Corpus) {
    let files = corpus.files();
    let blocks: Vec<_> = files
        .iter()
        .filter(|(path, _)| path.starts_with("blocked-edges/4.1"))
        .collect();
    let channels: Vec<_> = files
        .iter()
        .filter(|(path, _)| path.starts_with("channels/stable"))
        .collect();
    let mut rng = SeededRng::new(5);
    let mut fates: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..2_500 {
        let (path, content) = blocks[rng.below(blocks.len())];
        let damaged = mutate(content, &mut rng);
        let set = |content: Vec<u8>| {
            let version = ("version".to_owned(), b"1.1.0".to_vec());
            GraphData::from_files([version, (path.clone(), content)], 1)
        };
        let fate = match set(damaged.clone()) {
            Err(refused) => {
                assert!(!refused.problems.is_empty());
                "refused"
            }
            // Whatever was made of it, it is a block: nothing is skipped.
            Ok((data, problems)) => {
                assert!(
                    !data.blocks.is_empty(),
                    "{path}: {}",
                    String::from_utf8_lossy(&damaged)
                );
                if problems.is_empty() {
                    "read"
                } else {
                    "blocks without exception"
                }
            }
        };
        *fates.entry(fate).or_default() += 1;
        let _ = lint::files([("version".to_owned(), b"1.1.0".to_vec()), (path.clone(), damaged)]);
    }
    assert_eq!(fates.len(), 3, "{fates:?}");
    for _ in 0..400 {
        let (path, content) = channels[rng.below(channels.len())];
        let damaged = mutate(content, &mut rng);
        let version = ("version".to_owned(), mutate(b"1.1.0\n", &mut rng));
        let raw = (
            "raw/metadata.json".to_owned(),
            mutate(br#"{"4.1.0":{"a":"b"}}"#, &mut rng),
        );
        let _ = GraphData::from_files([version, raw, (path.clone(), damaged)], 2);
    }
}

pub fn archives_that_are_damaged_are_refused_or_read(corpus: &Corpus) {
    let archive = &corpus.archive;
    let plain = gunzip(archive);
    let mut rng = SeededRng::new(6);
    for _ in 0..30 {
        let mut damaged = if rng.below(2) == 0 {
            archive.clone()
        } else {
            plain.clone()
        };
        let at = rng.below(damaged.len());
        damaged[at] ^= 1 << rng.below(8);
        damaged.truncate(damaged.len() - rng.below(2) * rng.below(damaged.len() / 2));
        let _ = graph_data::tar_files(&damaged);
    }
}
