//! `lint`: reads files or standard input and prints findings.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::args::{Common, LintArgs, Output};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lint::{Linter, Report, output};
use crate::render::objects::machine;
use crate::screen::Screen;

pub(super) fn run(common: &Common, args: &LintArgs, screen: Screen) -> Result<Exit, Failure> {
    let report = check(common, args)?;
    let text = if common.output == Some(Output::Name) {
        output::names(&report)
    } else {
        machine(common.output, || output::value(&report)).unwrap_or_else(|| output::text(&report))
    };
    screen.print(&text);
    if Output::is_for_humans(common.output) {
        screen.note(&output::notes(&report));
    }
    Ok(exit_of(&report))
}

fn check(common: &Common, args: &LintArgs) -> Result<Report, Failure> {
    let linter = Linter::new(args.validate, common.namespace.clone());
    let mut report = Report::default();
    for file in &args.files {
        for (name, text) in read(file)? {
            linter.lint(&name, &text, &mut report);
        }
    }
    Ok(report)
}

fn exit_of(report: &Report) -> Exit {
    // Empty input is an error, because it is what a failed command before the pipe leaves.
    if report.is_good() && !report.is_empty() {
        Exit::Done
    } else {
        Exit::Error
    }
}

/// The files to check, each with name and text. A directory is replaced by its manifests, ordered by name.
fn read(file: &Path) -> Result<Vec<(String, String)>, Failure> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::Other(format!("standard input: {error}")))?;
        return Ok(vec![("-".to_owned(), text)]);
    }
    let unreadable =
        |path: &Path, error: std::io::Error| Failure::Other(format!("{}: {error}", path.display()));
    let mut paths = vec![file.to_owned()];
    if file.is_dir() {
        let entries = std::fs::read_dir(file).map_err(|error| unreadable(file, error))?;
        paths = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path: &PathBuf| is_manifest(path))
            .collect();
        paths.sort();
        if paths.is_empty() {
            return Err(Failure::Other(format!(
                "{}: no file ends in .yaml, .yml or .json",
                file.display()
            )));
        }
    }
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, error))?;
            Ok((path.display().to_string(), text))
        })
        .collect()
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    path.is_file() && matches!(extension, Some("yaml" | "yml" | "json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::UnknownFields;

    fn lint(files: &[PathBuf]) -> Result<Exit, Failure> {
        let args = LintArgs {
            files: files.to_vec(),
            validate: UnknownFields::Strict,
        };
        check(&Common::default(), &args).map(|report| exit_of(&report))
    }

    #[test]
    fn the_exit_code_says_whether_a_file_is_good() {
        let directory = tempfile::tempdir().unwrap();
        let head = "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: ManagedClustersUpgrade\nmetadata: {name: a}\n";
        let good = directory.path().join("good.yaml");
        std::fs::write(
            &good,
            format!("{head}spec: {{clusterVersion: {{version: 4.12.0}}}}\n"),
        )
        .unwrap();
        assert_eq!(lint(std::slice::from_ref(&good)), Ok(Exit::Done));
        assert_eq!(lint(&[directory.path().to_owned()]), Ok(Exit::Done));
        let bad = directory.path().join("bad.yml");
        std::fs::write(&bad, format!("{head}spec: {{}}\n")).unwrap();
        assert_eq!(lint(&[good, bad]), Ok(Exit::Error));
        assert_eq!(lint(&[directory.path().to_owned()]), Ok(Exit::Error));
    }

    #[test]
    fn input_without_any_object_is_not_good_and_other_objects_alone_are() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("one.yaml");
        std::fs::write(&file, "# nothing\n---\n").unwrap();
        assert_eq!(lint(std::slice::from_ref(&file)), Ok(Exit::Error));
        std::fs::write(&file, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n").unwrap();
        assert_eq!(lint(&[file]), Ok(Exit::Done));
    }

    #[test]
    fn a_missing_file_is_an_error_that_names_it() {
        let error = lint(&[PathBuf::from("nowhere.yaml")]).unwrap_err();
        assert!(error.to_string().starts_with("error: nowhere.yaml: "), "{error}");
    }
}
