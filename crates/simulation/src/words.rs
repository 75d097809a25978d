//! A newer build of the controller, played at its wire: it writes words into rows that the older build does not know, and reads
//! them back.

/// Words of rows: the old and the new one. A phase, a reason and a step's name are among them.
const WORDS: [(&str, &str); 3] = [
    ("\"phase\":\"Partial\"", "\"phase\":\"Advancing\""),
    ("\"reason\":\"Progressing\"", "\"reason\":\"GettingThere\""),
    ("\"reason\":\"Running\"", "\"reason\":\"OnItsWay\""),
];

/// The word that the older build would have written.
#[must_use]
pub fn old(word: &str) -> &str {
    match word {
        "Advancing" => "Partial",
        "GettingThere" => "Progressing",
        "OnItsWay" => "Running",
        other => other,
    }
}

/// Whether only the newer build writes a word.
#[must_use]
pub fn is_newer(word: &str) -> bool {
    old(word) != word
}

/// The JSON of reports with the words of the newer build.
#[must_use]
pub fn newer(json: &str) -> String {
    WORDS
        .iter()
        .fold(json.to_owned(), |json, (old, new)| json.replace(old, new))
}

/// The JSON of reports with the words of the older build.
#[must_use]
pub fn older(json: &str) -> String {
    WORDS
        .iter()
        .fold(json.to_owned(), |json, (old, new)| json.replace(new, old))
}
