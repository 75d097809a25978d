//! The output formats.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

use crate::template::Template;

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A table with additional columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Names only.
    Name,
    /// Comma-separated values.
    Csv,
    /// A template of the user. A process reads one command line, so it lives as long as the process.
    Template(&'static Template),
}

impl Output {
    /// The formats without a template.
    const PLAIN: [(&'static str, Output); 5] = [
        ("wide", Output::Wide),
        ("json", Output::Json),
        ("yaml", Output::Yaml),
        ("name", Output::Name),
        ("csv", Output::Csv),
    ];

    /// Reads the value of `-o`.
    ///
    /// # Errors
    /// The text is no format, or its template cannot be read.
    pub fn read(text: &str) -> Result<Output, String> {
        let plain = Output::PLAIN.iter().find(|(name, _)| *name == text);
        if let Some((_, output)) = plain {
            return Ok(*output);
        }
        let template = match text.split_once('=') {
            Some(("jsonpath", template)) => Template::jsonpath(template),
            Some(("custom-columns", spec)) => Template::columns(spec),
            _ => Err(
                "must be wide, json, yaml, name, csv, jsonpath=TEMPLATE or custom-columns=SPEC".to_owned(),
            ),
        };
        Ok(Output::Template(Box::leak(Box::new(template?))))
    }

    /// The format without the line of headers that a template has.
    #[must_use]
    pub fn without_headers(self) -> Output {
        match self {
            Output::Template(template) if template.has_headers() => {
                Output::Template(Box::leak(Box::new(template.without_headers())))
            }
            other => other,
        }
    }

    /// True if people read the output.
    #[must_use]
    pub const fn is_for_humans(output: Option<Output>) -> bool {
        matches!(output, None | Some(Output::Wide))
    }
}

/// Reads formats, and knows the names that a shell can complete.
#[derive(Clone, Debug)]
pub(super) struct Formats;

impl TypedValueParser for Formats {
    type Value = Output;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Output, Error> {
        let text = value.to_string_lossy();
        Output::read(&text).map_err(|why| {
            let mut error = Error::new(ErrorKind::ValueValidation).with_cmd(command);
            let name = arg.map_or_else(|| "--output".to_owned(), ToString::to_string);
            error.insert(ContextKind::InvalidArg, ContextValue::String(name));
            error.insert(
                ContextKind::InvalidValue,
                ContextValue::String(format!("{text}: {why}")),
            );
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let plain = Output::PLAIN.iter().map(|(name, _)| *name);
        let all = plain.chain(["jsonpath=", "custom-columns="]);
        Some(Box::new(all.map(PossibleValue::new)))
    }
}
