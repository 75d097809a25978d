//! Content types and encodings that a client accepts.
//!
//! This file parses `Accept` and `Accept-Encoding` (RFC 9110 12.5) and chooses. The first rules are those of every other
//! update service: no `Accept` gives the vendor's type, `*`, `*/*` and `application/*` give JSON, each of the two types gives
//! itself. Other values are parsed as the RFC says, and a client that excludes both types gets 406.

use http::{HeaderMap, HeaderValue, header};

/// A content type of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`
    Json,
    /// `application/vnd.redhat.cincinnati.v1+json`
    Cincinnati,
}

impl MediaType {
    /// As a header's value.
    #[must_use]
    pub fn header(self) -> HeaderValue {
        HeaderValue::from_static(self.as_str())
    }

    /// The name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Cincinnati => "application/vnd.redhat.cincinnati.v1+json",
        }
    }
}

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As it is.
    Identity,
    /// gzip.
    Gzip,
}

/// A quality in thousandths; 1000 where none is given, 0 for one that cannot be read.
fn quality(parameters: &str) -> u16 {
    parameters
        .split(';')
        .find_map(|parameter| {
            let (key, value) = parameter.split_once('=')?;
            key.trim().eq_ignore_ascii_case("q").then(|| value.trim())
        })
        .map_or(1000, |value| match value.parse::<f32>() {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to 1000"
            )]
            Ok(value) if (0.0..=1.0).contains(&value) => (value * 1000.0).round() as u16,
            _ => 0,
        })
}

/// The elements of all lines of a list header, each split into its name and its parameters.
fn elements(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = (&str, &str)> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|element| !element.is_empty())
        .map(|element| element.split_once(';').unwrap_or((element, "")))
        .map(|(name, parameters)| (name.trim(), parameters))
}

/// How exactly a range names a type: 3 itself, 2 its family, 1 anything, 0 not at all.
fn closeness(range: &str, offer: MediaType) -> u8 {
    if range.eq_ignore_ascii_case(offer.as_str()) {
        3
    } else if range.eq_ignore_ascii_case("application/*") {
        2
    } else {
        u8::from(range == "*/*" || range == "*")
    }
}

/// The content type for a graph, `None` if nothing we offer is acceptable.
///
/// Of two types that are equally welcome the one that is named first wins, and JSON where only a range is named.
#[must_use]
pub fn media_type(headers: &HeaderMap) -> Option<MediaType> {
    let mut lines = headers.get_all(header::ACCEPT).iter();
    match (lines.next().map(HeaderValue::as_bytes), lines.next()) {
        (None, _) => return Some(MediaType::Cincinnati),
        // What practically every client sends.
        (Some(b"application/json" | b"*/*"), None) => return Some(MediaType::Json),
        _ => {}
    }
    if elements(headers, header::ACCEPT).next().is_none() {
        // A line that is empty or not text is ignored.
        let silent = headers
            .get_all(header::ACCEPT)
            .iter()
            .all(|line| line.to_str().is_ok());
        return silent.then_some(MediaType::Cincinnati);
    }
    let mut best: Option<(u16, u8, usize, MediaType)> = None;
    for offer in [MediaType::Json, MediaType::Cincinnati] {
        // The closest range decides the quality; of equally close ones the first.
        let mut chosen: Option<(u8, u16, usize)> = None;
        for (position, (range, parameters)) in elements(headers, header::ACCEPT).enumerate() {
            let close = closeness(range, offer);
            if close > 0 && chosen.is_none_or(|(known, ..)| close > known) {
                chosen = Some((close, quality(parameters), position));
            }
        }
        let Some((close, quality, position)) = chosen.filter(|(_, quality, _)| *quality > 0) else {
            continue;
        };
        let better = best.is_none_or(|(q, c, p, _)| {
            (quality, close, std::cmp::Reverse(position)) > (q, c, std::cmp::Reverse(p))
        });
        if better {
            best = Some((quality, close, position, offer));
        }
    }
    best.map(|(.., offer)| offer)
}

/// The encoding of a body: gzip if the client prefers it or is indifferent, `None` if no encoding is acceptable.
#[must_use]
pub fn encoding(headers: &HeaderMap) -> Option<Encoding> {
    let (mut gzip, mut identity, mut any) = (None, None, None);
    for (name, parameters) in elements(headers, header::ACCEPT_ENCODING) {
        let slot = if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            &mut gzip
        } else if name.eq_ignore_ascii_case("identity") {
            &mut identity
        } else if name == "*" {
            &mut any
        } else {
            continue;
        };
        slot.get_or_insert_with(|| quality(parameters));
    }
    let gzip = gzip.or(any).unwrap_or(0);
    // Identity is acceptable unless it is excluded, and less welcome than what is named.
    let identity = identity.or(any.filter(|quality| *quality == 0)).unwrap_or(1);
    match (gzip, identity) {
        (0, 0) => None,
        (gzip, identity) if gzip >= identity => Some(Encoding::Gzip),
        _ => Some(Encoding::Identity),
    }
}

#[cfg(test)]
mod tests;
