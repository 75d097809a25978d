//! The image recipes below deploy/, linted as text, and the binaries in the images, built as by `cargo xtask image` but not
//! optimised. A recipe's build command is compared with that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use package::image::{Architecture, Libc, Platform, Program, STATIC};

use crate::examples::examples;

/// An image: its recipe and its manifests, and the program in it.
struct Image {
    recipe: &'static str,
    manifests: &'static str,
    program: Program,
}

const IMAGES: [Image; 2] = [
    Image {
        recipe: "deploy/Containerfile",
        manifests: "deploy/controller.yaml",
        program: Program::McuController,
    },
    Image {
        recipe: "deploy/update-service/Containerfile",
        manifests: "deploy/update-service/update-service.yaml",
        program: Program::UpdateService,
    },
];

/// How each recipe copies the licence: to where `cargo xtask image` puts it.
const LICENCE: &str = "LICENSE /licenses/LICENSE";

/// What the machines that images are built on call themselves, and Rust's name of it.
const MACHINES: [(&str, &str); 2] = [
    ("x86_64", "x86_64-unknown-linux-gnu"),
    ("aarch64", "aarch64-unknown-linux-gnu"),
];

/// One instruction of a recipe: its keyword in capitals, and the rest of the line.
struct Instruction {
    keyword: String,
    rest: String,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(image: &Image) -> Result<Vec<Instruction>> {
    let text = std::fs::read_to_string(root().join(image.recipe))?.replace("\\\n", " ");
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |line: &str| {
        let (keyword, rest) = line
            .split_once(char::is_whitespace)
            .context("an instruction has arguments")?;
        Ok(Instruction {
            keyword: keyword.to_uppercase(),
            rest: rest.trim().to_owned(),
        })
    };
    lines.map(parse).collect()
}

/// The instructions of the last stage, its FROM included.
fn final_stage(recipe: &[Instruction]) -> &[Instruction] {
    let from = recipe
        .iter()
        .rposition(|instruction| instruction.keyword == "FROM");
    &recipe[from.unwrap_or_default()..]
}

fn only<'a>(stage: &'a [Instruction], keyword: &str) -> Result<&'a str> {
    let mut found = stage.iter().filter(|instruction| instruction.keyword == keyword);
    match (found.next(), found.next()) {
        (Some(instruction), None) => Ok(&instruction.rest),
        _ => bail!("not exactly one {keyword}"),
    }
}

/// What the last stage copies from the first and, of the repository, the licence: from, to.
fn copied(stage: &[Instruction]) -> Result<Vec<(&str, &str)>> {
    let copies = stage.iter().filter(|instruction| instruction.keyword == "COPY");
    copies
        .map(|copy| {
            let paths = match copy.rest.strip_prefix("--from=build ") {
                Some(paths) => paths,
                None if copy.rest == LICENCE => LICENCE,
                None => bail!("copied from elsewhere: {}", copy.rest),
            };
            paths.split_once(' ').context("two paths")
        })
        .collect()
}

#[test]
fn each_image_holds_one_binary_and_runs_it_without_a_shell_as_a_numeric_user_who_is_not_root() -> Result<()> {
    for image in &IMAGES {
        let recipe = read(image)?;
        let stage = final_stage(&recipe);
        assert_eq!(only(stage, "FROM")?, "scratch", "no shell, no package");
        let program = format!("/{}", image.program.name());
        let copied = copied(stage)?;
        let allowed = [
            program.as_str(),
            "/licenses/LICENSE",
            "/etc/ssl/certs/ca-certificates.crt",
        ];
        for (_, to) in &copied {
            assert!(allowed.contains(to), "{to}");
        }
        assert!(copied.iter().any(|(_, to)| *to == allowed[1]), "no licence");
        let ids: Vec<u32> = only(stage, "USER")?
            .split(':')
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        assert!(ids.len() == 2 && !ids.contains(&0), "{ids:?}");
        let entrypoint: Vec<String> =
            serde_json::from_str(only(stage, "ENTRYPOINT")?).context("exec form")?;
        assert_eq!(entrypoint, [program]);
        assert!(
            !stage
                .iter()
                .any(|instruction| ["RUN", "CMD", "SHELL"].contains(&instruction.keyword.as_str()))
        );
    }
    Ok(())
}

#[test]
fn each_recipe_pins_its_base_to_the_toolchain_and_fetches_nothing_by_url() -> Result<()> {
    let toolchain = std::fs::read_to_string(root().join("rust-toolchain.toml"))?;
    let channel = toolchain.split('"').nth(1).context("a channel")?;
    let base = format!("docker.io/library/rust:{channel}-");
    for image in &IMAGES {
        let recipe = read(image)?;
        assert!(!recipe.iter().any(|instruction| instruction.keyword == "ADD"));
        for name in bases(&recipe) {
            assert!(name == "scratch" || name.starts_with(&base), "{name}");
        }
    }
    Ok(())
}

/// Names of the images that a recipe begins with.
fn bases(recipe: &[Instruction]) -> Vec<&str> {
    let froms = recipe.iter().filter(|instruction| instruction.keyword == "FROM");
    froms
        .filter_map(|from| from.rest.split_whitespace().next())
        .collect()
}

/// An image that can never be another one.
fn by_digest(image: &str) -> bool {
    let digest = image.split_once("@sha256:").map(|(_, digest)| digest);
    digest.is_some_and(|digest| {
        digest.len() == 64
            && digest
                .chars()
                .all(|digit| digit.is_ascii_digit() || ('a'..='f').contains(&digit))
    })
}

#[test]
fn no_recipe_builds_from_an_image_without_digest() -> Result<()> {
    for image in &IMAGES {
        let recipe = read(image)?;
        for name in bases(&recipe).into_iter().filter(|name| *name != "scratch") {
            // The digest is an argument without a default, and only a digest is accepted.
            let argument = name
                .strip_suffix('}')
                .and_then(|name| name.split_once("@${"))
                .map(|(_, argument)| argument);
            let refuses = argument.is_some_and(|argument| {
                let mut arguments = recipe.iter().filter(|instruction| instruction.keyword == "ARG");
                arguments.any(|instruction| instruction.rest == argument)
                    && !recipe.iter().any(|instruction| {
                        instruction.keyword == "ARG" && instruction.rest.starts_with(&format!("{argument}="))
                    })
            });
            assert!(by_digest(name) || refuses, "{}: {name}", image.recipe);
        }
    }
    Ok(())
}

#[test]
fn every_image_in_the_guide_and_the_examples_is_named_by_digest() -> Result<()> {
    let mut found = 0;
    let directories = ["docs/guide", "deploy/examples"].map(|name| root().join(name));
    for directory in examples()?.into_iter().chain(directories) {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let text = std::fs::read_to_string(&path)?;
            for line in text.lines().filter(|line| line.contains("image: ")) {
                let image = line.split("image: ").nth(1).unwrap_or_default();
                let image = image.trim_end_matches([' ', '}', '"']).trim_start_matches('"');
                assert!(by_digest(image), "{}: {line}", path.display());
                found += 1;
            }
        }
    }
    assert!(found >= 2, "{found}");
    Ok(())
}

#[test]
fn each_deployment_runs_the_port_and_user_that_its_image_offers() -> Result<()> {
    for image in &IMAGES {
        let recipe = read(image)?;
        let port: u16 = only(final_stage(&recipe), "EXPOSE")?.parse()?;
        let manifests = std::fs::read_to_string(root().join(image.manifests))?;
        assert!(manifests.contains(&format!("containerPort: {port}")));
        assert!(manifests.contains("runAsNonRoot: true"));
        assert!(
            !manifests.contains("command:"),
            "the image's entrypoint is the command"
        );
    }
    let listens = [
        ("deploy/controller.yaml", "--listen=:8080"),
        ("deploy/update-service/config.toml", "listen = \":8080\""),
    ];
    for (file, address) in listens {
        assert!(
            std::fs::read_to_string(root().join(file))?.contains(address),
            "{file}"
        );
    }
    Ok(())
}

#[test]
fn each_recipe_builds_as_cargo_xtask_image_does() -> Result<()> {
    for image in &IMAGES {
        let recipe = read(image)?;
        let name = image.program.name();
        let environments: BTreeSet<&str> = recipe
            .iter()
            .filter(|instruction| instruction.keyword == "ENV")
            .map(|instruction| instruction.rest.as_str())
            .collect();
        let mut flags = BTreeSet::new();
        for (machine, triple) in MACHINES {
            let built = run_build(only(&recipe, "RUN")?, name, machine, triple)?;
            let ours = platform()?.command(name, "release")?;
            let expected: BTreeSet<String> = ours
                .get_args()
                .map(|argument| argument.to_string_lossy().replace(TARGET, triple))
                .collect();
            assert_eq!(built, expected, "{name} on {machine}");
            let variable = triple.to_uppercase().replace('-', "_");
            flags.insert(format!(
                "CARGO_TARGET_{variable}_RUSTFLAGS=\"{}\"",
                STATIC.join(" ")
            ));
        }
        assert_eq!(environments, flags.iter().map(String::as_str).collect(), "{name}");
        let output = format!("/src/out/{name}");
        let stage = copied(final_stage(&recipe))?;
        assert!(stage.iter().any(|(from, _)| *from == output), "{output}");
    }
    Ok(())
}

/// Runs a recipe's build command on a machine of this kind, with a cargo that only notes its arguments and makes the binary's file.
/// Returns the arguments. The binary must be in `out`, which is `/src/out` in the recipe.
fn run_build(command: &str, name: &str, machine: &str, triple: &str) -> Result<BTreeSet<String>> {
    let source = tempfile::tempdir()?;
    let binary = format!("target/{triple}/release");
    let stubs = format!(
        "uname() {{ echo {machine}; }}\n\
         cargo() {{ printf '%s\\n' \"$@\" > arguments && mkdir -p {binary} && echo {triple} > {binary}/{name}; }}\n"
    );
    let status = std::process::Command::new("sh")
        .args(["-ec", &(stubs + command)])
        .current_dir(source.path())
        .status()?;
    if !status.success() {
        bail!("on {machine} this fails: {command}");
    }
    let built = std::fs::read_to_string(source.path().join("out").join(name))?;
    assert_eq!(built.trim(), triple);
    let arguments = std::fs::read_to_string(source.path().join("arguments"))?;
    let arguments = arguments.replace("--release\n", "--profile\nrelease\n");
    Ok(arguments.lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn each_binary_is_static() -> Result<()> {
    for image in &IMAGES {
        let binary = std::fs::read(static_binary(image.program).await?)?;
        assert_eq!(interpreter(&binary)?, None, "{}", image.program.name());
    }
    let own = std::fs::read(std::env::current_exe()?)?;
    assert!(
        interpreter(&own)?.is_some(),
        "the check can tell: this test is dynamic"
    );
    Ok(())
}

/// Otherwise two machines would make different bytes of the same commit.
#[tokio::test]
async fn no_binary_names_a_directory_of_the_machine_that_built_it() -> Result<()> {
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"))?;
    let root = repository::root().display();
    let places = [
        format!("{root}/crates/"),
        format!("{home}/registry/"),
        format!("{root}/target/"),
        // As the directory in which the compiler ran.
        format!("\0{root}\0"),
        // Sources of the standard library, if they are installed.
        "/lib/rustlib/src/".to_owned(),
    ];
    for image in &IMAGES {
        let binary = static_binary(image.program).await?;
        let found = named_in(&binary, &places)?;
        assert!(found.is_empty(), "{} names {found:?}", image.program.name());
    }
    // The check can tell: this test is built without such flags.
    let own = named_in(&std::env::current_exe()?, &places)?;
    for place in &places[..2] {
        assert!(own.contains(&place.as_str()), "{place} is not found");
    }
    Ok(())
}

fn named_in<'a>(binary: &Path, places: &'a [String]) -> Result<Vec<&'a str>> {
    let bytes = std::fs::read(binary)?;
    let text = String::from_utf8_lossy(&bytes);
    let places = places.iter().map(String::as_str);
    Ok(places.filter(|place| text.contains(*place)).collect())
}

/// What the tests build for.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The platform of this target.
pub fn platform() -> Result<Platform> {
    Platform::new(Architecture::Amd64, Libc::Gnu)
}

/// Cargo's profile of binaries here. An optimized build takes minutes, and the flags are the same.
pub const PROFILE: &str = "static";

/// The binary of an image; one build at a time.
pub async fn static_binary(program: Program) -> Result<PathBuf> {
    static BUILDS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _one = BUILDS.lock().await;
    tokio::task::spawn_blocking(move || platform()?.build(program.name(), PROFILE)).await?
}

/// The dynamic loader that a 64-bit little-endian ELF file names, if any.
fn interpreter(elf: &[u8]) -> Result<Option<String>> {
    const PT_INTERP: u64 = 3;
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        bail!("not a 64-bit little-endian ELF file");
    }
    let number = |at: usize, bytes: usize| -> Result<u64> {
        let field = elf.get(at..at + bytes).context("the file is cut off")?;
        Ok(field
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let (table, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
    for index in 0..count {
        let header = usize::try_from(table + index * size)?;
        if number(header, 4)? == PT_INTERP {
            let (start, length) = (
                usize::try_from(number(header + 8, 8)?)?,
                usize::try_from(number(header + 32, 8)?)?,
            );
            let path = elf.get(start..start + length).context("the file is cut off")?;
            return Ok(Some(
                String::from_utf8_lossy(path).trim_end_matches('\0').to_owned(),
            ));
        }
    }
    Ok(None)
}
