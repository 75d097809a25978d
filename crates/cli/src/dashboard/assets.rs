//! The files of the page, which are part of the program: the page needs no other server and no network.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its path on the server.
    pub path: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub content: &'static str,
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($path:literal, $media_type:expr, $file:literal) => {
        Asset {
            path: $path,
            media_type: $media_type,
            content: include_str!(concat!("assets/", $file)),
        }
    };
}

/// All files.
pub const ALL: [Asset; 12] = [
    asset!("/", "text/html; charset=utf-8", "index.html"),
    asset!("/style.css", "text/css; charset=utf-8", "style.css"),
    asset!("/icon.svg", "image/svg+xml", "icon.svg"),
    asset!("/app.js", JAVASCRIPT, "app.js"),
    asset!("/actions.js", JAVASCRIPT, "actions.js"),
    asset!("/causes.js", JAVASCRIPT, "causes.js"),
    asset!("/connection.js", JAVASCRIPT, "connection.js"),
    asset!("/elements.js", JAVASCRIPT, "elements.js"),
    asset!("/fleet.js", JAVASCRIPT, "fleet.js"),
    asset!("/map.js", JAVASCRIPT, "map.js"),
    asset!("/story.js", JAVASCRIPT, "story.js"),
    asset!("/timeline.js", JAVASCRIPT, "timeline.js"),
];
