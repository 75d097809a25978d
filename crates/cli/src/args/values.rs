//! Values of arguments, and how each is read.

use api::report::Phase;
use chrono::TimeDelta;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction};

pub(super) fn phases() -> impl TypedValueParser<Value = Phase> {
    let names = Phase::ALL.map(|phase| PossibleValue::new(phase.as_str()));
    PossibleValuesParser::new(names).try_map(|text| {
        Phase::ALL
            .into_iter()
            .find(|phase| phase.as_str().eq_ignore_ascii_case(&text))
            .ok_or("not a phase")
    })
}

/// A share from 0 to 1, or from 0% to 100%.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |number| (number, 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / unit);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "must be a share from 0 to 1, or from 0% to 100%".to_owned())
}

pub(super) fn duration(text: &str) -> Result<TimeDelta, String> {
    api::validate::parse_duration(text)
        .ok_or_else(|| "must be a duration such as 30s, 90m or 1h30m (days are not supported)".to_owned())
}

/// A duration as it is written in a spec.
pub(super) fn duration_text(text: &str) -> Result<String, String> {
    duration(text).map(|_| text.to_owned())
}

/// An argument that is a switch, as kubectl has them: given alone it is on, and a value may follow an equals sign.
pub(super) trait Switch {
    /// Makes the argument a switch that is off by default.
    fn switch(self) -> Self;
}

impl Switch for Arg {
    fn switch(self) -> Self {
        self.value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .action(ArgAction::Set)
            .value_parser(truth)
            .default_value("false")
            .default_missing_value("true")
            .hide_default_value(true)
    }
}

/// The value of a switch, in the words that kubectl takes.
fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A duration, or a number of seconds as in kubectl.
pub(super) fn request_timeout(text: &str) -> Result<TimeDelta, String> {
    let seconds = text.parse::<u32>().ok();
    seconds.map_or_else(
        || duration(text),
        |seconds| Ok(TimeDelta::seconds(seconds.into())),
    )
}

/// The name of a namespace. An empty text means none, because a script may pass an unset variable.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    object_name(text)
}

/// The name of an object as the API server accepts it. Other texts could change the path of the request.
pub(super) fn object_name(text: &str) -> Result<String, String> {
    let message = "a name consists of at most 253 lower-case letters, digits, - and ., and begins and ends with a letter or a digit";
    let name = api::validate::is_subdomain(text).then(|| text.to_owned());
    name.ok_or_else(|| message.to_owned())
}
