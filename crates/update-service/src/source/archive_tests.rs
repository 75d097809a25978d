use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    member: 10_000,
    kept: 20_000,
    unpacked: 1_000_000,
};

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn all(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, ArchiveError> {
    let members = unpack(bytes, Box::new(|_| true), LIMITS)?;
    Ok(members
        .into_iter()
        .map(|member| (member.path, member.bytes))
        .collect())
}

#[test]
fn members_are_found_with_long_names_and_odd_sizes() {
    let long = format!("{}/file", "directory/".repeat(30).trim_end_matches('/'));
    let files: Vec<(&str, &[u8])> = vec![
        ("./a", b"1"),
        ("empty", b""),
        (&long, b"long"),
        ("exact", &[7; 512]),
        ("z", &[9; 513]),
    ];
    let archive = tar(&files);
    for bytes in [archive.clone(), gzip(&archive)] {
        let found = all(&bytes).unwrap();
        let names: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names, ["a", "empty", &long, "exact", "z"]);
        assert_eq!(found[4].1, vec![9; 513]);
    }
}

#[test]
fn pax_records_name_and_size_the_next_member() {
    let mut builder = tar::Builder::new(Vec::new());
    let name = format!("release-manifests/{}", "é".repeat(80));
    builder
        .append_pax_extensions([("path", name.as_bytes()), ("mtime", b"1.5".as_slice())])
        .unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_path("short").unwrap();
    header.set_size(3);
    header.set_cksum();
    builder.append(&header, b"abc".as_slice()).unwrap();
    let found = all(&builder.into_inner().unwrap()).unwrap();
    assert_eq!(found, [(name, b"abc".to_vec())]);
}

#[test]
fn directories_and_links_are_passed_over() {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name) in [
        (tar::EntryType::Directory, "d/"),
        (tar::EntryType::Symlink, "l"),
        (tar::EntryType::Link, "h"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        if kind != tar::EntryType::Directory {
            header.set_link_name("target").unwrap();
        }
        builder.append_data(&mut header, name, std::io::empty()).unwrap();
    }
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    builder.append_data(&mut header, "f", b"x".as_slice()).unwrap();
    assert_eq!(
        all(&builder.into_inner().unwrap()).unwrap(),
        [("f".to_owned(), b"x".to_vec())]
    );
}

#[test]
fn a_file_is_found_before_the_rest_has_come() {
    let archive = gzip(&tar(&[
        ("skip", &[0; 3000]),
        ("wanted", b"here"),
        ("after", &[1; 5000]),
    ]));
    let mut unpacker = Unpacker::new(Box::new(|path| path == "wanted"), LIMITS);
    let mut pushed = 0;
    for chunk in archive.chunks(7) {
        unpacker.push(chunk).unwrap();
        pushed += chunk.len();
        if !unpacker.found().is_empty() {
            break;
        }
    }
    assert!(pushed <= archive.len());
    assert_eq!(unpacker.into_found()[0].bytes, b"here");
}

#[test]
fn an_archive_that_is_cut_off_is_an_error() {
    let archive = tar(&[("a", &[1; 700]), ("b", b"2")]);
    let packed = gzip(&archive);
    for cut in [1, 100, 600, 1100] {
        assert!(all(&archive[..cut]).is_err(), "cut at {cut}");
    }
    for cut in [1, 12, packed.len() - 1] {
        assert!(all(&packed[..cut]).is_err(), "gzip cut at {cut}");
    }
    let mut flipped = packed.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    assert!(all(&flipped).is_err());
}

#[test]
fn sizes_are_bounded_whatever_the_archive_says() {
    for (files, hint) in [
        (vec![("a", vec![0; 10_001])], "more than 10000"),
        (
            vec![
                ("a", vec![0; 9_000]),
                ("b", vec![0; 9_000]),
                ("c", vec![0; 9_000]),
            ],
            "exceed 20000",
        ),
        (vec![("skip", vec![0; 2_000_000])], "1000000"),
    ] {
        let files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(name, bytes)| (*name, bytes.as_slice()))
            .collect();
        let archive = gzip(&tar(&files));
        let wanted: Wanted = Box::new(|path| path != "skip");
        let error = unpack(&archive, wanted, LIMITS).unwrap_err();
        assert!(matches!(error, ArchiveError::TooLarge(_)), "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    }
}

#[test]
fn other_compressions_are_named() {
    for (magic, name) in [
        (&[0x28, 0xb5, 0x2f, 0xfd, 0][..], "zstd"),
        (b"BZh91", "bzip2"),
        (b"\xfd7zXZ", "xz"),
    ] {
        let error = all(magic).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    assert!(matches!(all(&[b'x'; 2048]), Err(ArchiveError::Malformed(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_pieces_in_which_it_arrives_do_not_matter(
        sizes in proptest::collection::vec(0_usize..1500, 1..6),
        piece in 1_usize..900,
        packed in any::<bool>(),
    ) {
        let contents: Vec<(String, Vec<u8>)> = sizes
            .iter()
            .enumerate()
            .map(|(number, size)| (format!("f{number}"), vec![u8::try_from(number).unwrap(); *size]))
            .collect();
        let files: Vec<(&str, &[u8])> = contents.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        let archive = tar(&files);
        let archive = if packed { gzip(&archive) } else { archive };
        let mut unpacker = Unpacker::new(Box::new(|_| true), LIMITS);
        for chunk in archive.chunks(piece) {
            unpacker.push(chunk).unwrap();
        }
        let found: Vec<(String, Vec<u8>)> =
            unpacker.finish().unwrap().into_iter().map(|member| (member.path, member.bytes)).collect();
        prop_assert_eq!(found, contents);
    }

    #[test]
    fn damaged_archives_never_panic(at in 0_usize..3000, value in any::<u8>(), piece in 1_usize..600) {
        let mut archive = tar(&[("a", &[1; 700]), ("b", b"2")]);
        let at = at % archive.len();
        archive[at] = value;
        let mut unpacker = Unpacker::new(Box::new(|_| true), LIMITS);
        for chunk in archive.chunks(piece) {
            if unpacker.push(chunk).is_err() {
                break;
            }
        }
        let _ = unpacker.finish();
    }
}
