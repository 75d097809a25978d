//! Reads the pages: the commands and the YAML on them, in order.

use anyhow::{Context as _, Result};
use repository::root;

/// Programs whose command lines count as commands in sentences and tables, too.
const PROGRAMS: [&str; 12] = [
    "apt-get",
    "argocd",
    "cargo",
    "curl",
    "helm",
    "jq",
    "kubectl",
    "kustomize",
    "oc",
    "podman",
    "skopeo",
    "update-service",
];

/// A command, and the line of its page on which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub line: usize,
    pub text: String,
}

/// What a page asks of its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A block of commands for one shell.
    Script(Vec<Command>),
    /// A command in a sentence or a table.
    Inline(Command),
    /// A block of YAML, and the line of its page before it.
    Yaml { line: usize, text: String },
}

/// A page.
#[derive(Debug)]
pub struct Page {
    /// Its path from the root of the repository.
    pub name: &'static str,
    pub items: Vec<Item>,
}

impl Page {
    /// Reads a page by its path from the root of the repository.
    pub fn read(name: &'static str) -> Result<Self> {
        let text = std::fs::read_to_string(root().join(name)).context(name)?;
        Ok(Self {
            name,
            items: items(&text),
        })
    }

    /// All its commands.
    pub fn commands(&self) -> Vec<&Command> {
        let mut commands = Vec::new();
        for item in &self.items {
            match item {
                Item::Script(script) => commands.extend(script),
                Item::Inline(command) => commands.push(command),
                Item::Yaml { .. } => {}
            }
        }
        commands
    }

    /// Its first block of YAML that contains a text.
    pub fn yaml(&self, part: &str) -> Result<&str> {
        let mut blocks = self.items.iter().filter_map(|item| match item {
            Item::Yaml { text, .. } if text.contains(part) => Some(text.as_str()),
            _ => None,
        });
        blocks
            .next()
            .with_context(|| format!("{} has no YAML with {part:?}", self.name))
    }
}

fn items(page: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut paragraph = Vec::new();
    let mut lines = (1_usize..).zip(page.lines());
    while let Some((line, text)) = lines.next() {
        let Some(language) = text.trim_start().strip_prefix("```") else {
            if text.is_empty() {
                items.extend(inline(&mut paragraph));
            } else {
                paragraph.push((line, text));
            }
            continue;
        };
        items.extend(inline(&mut paragraph));
        let is_inside = |(_, text): &(usize, &str)| !text.trim_start().starts_with("```");
        let block: Vec<(usize, &str)> = lines.by_ref().take_while(is_inside).collect();
        match language {
            "sh" | "bash" => items.push(Item::Script(commands(&block))),
            "yaml" => {
                let texts: Vec<&str> = block.iter().map(|(_, text)| *text).collect();
                let text = texts.join("\n") + "\n";
                items.push(Item::Yaml { line, text });
            }
            // Output of a command, or a file of another language.
            _ => {}
        }
    }
    items.extend(inline(&mut paragraph));
    items
}

/// The commands of a block, each with the lines that it goes on in.
fn commands(block: &[(usize, &str)]) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let mut is_open = false;
    for (line, text) in block {
        let text = text.trim();
        match commands.last_mut() {
            Some(last) if is_open => {
                last.text.push('\n');
                last.text.push_str(text);
            }
            _ if text.is_empty() || text.starts_with('#') => continue,
            _ => commands.push(Command {
                line: *line,
                text: text.to_owned(),
            }),
        }
        is_open = ["\\", "|", "&&"].iter().any(|end| text.ends_with(end));
    }
    commands
}

/// The commands among the code of a paragraph, which is taken.
fn inline(paragraph: &mut Vec<(usize, &str)>) -> Vec<Item> {
    let mut line = paragraph.first().map_or(0, |(line, _)| *line);
    let texts: Vec<&str> = paragraph.drain(..).map(|(_, text)| text).collect();
    let mut found = Vec::new();
    for (position, part) in texts.join("\n").split('`').enumerate() {
        // What stands between two backticks.
        if position % 2 == 1 && is_command(part) {
            let text = part.split_whitespace().collect::<Vec<_>>().join(" ");
            found.push(Item::Inline(Command { line, text }));
        }
        line += part.matches('\n').count();
    }
    found
}

/// Whether code names a program, after variables that it sets, and something to do.
fn is_command(code: &str) -> bool {
    let is_variable = |word: &str| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'))
    };
    let mut words = code.split_whitespace().skip_while(|word| is_variable(word));
    words.next().is_some_and(|program| PROGRAMS.contains(&program)) && words.next().is_some()
}

#[test]
fn commands_are_found_in_blocks_sentences_and_tables_with_their_lines() {
    let page = "# Title\n\nRun `kubectl get mcu\n-A` or `A_B=1 cargo test -p x`, see `status` and `kubectl`.\n\n\
                ```sh\n# a comment\nkubectl apply -f a.yaml   # why\nhelm install a \\\n  b\n```\n\
                | a | `oc get x` |\n```yaml\na: 1\n```\n```\n$ output\n```\n";
    let command = |line, text: &str| Command {
        line,
        text: text.to_owned(),
    };
    let expected = [
        Item::Inline(command(3, "kubectl get mcu -A")),
        Item::Inline(command(4, "A_B=1 cargo test -p x")),
        Item::Script(vec![
            command(8, "kubectl apply -f a.yaml   # why"),
            command(9, "helm install a \\\nb"),
        ]),
        Item::Inline(command(12, "oc get x")),
        Item::Yaml {
            line: 13,
            text: "a: 1\n".to_owned(),
        },
    ];
    assert_eq!(items(page), expected);
}
