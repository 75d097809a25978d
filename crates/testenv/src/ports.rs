//! Free local ports for servers that cannot be told to pick one themselves.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

/// Below the range the kernel gives to outgoing connections, so that no client takes a port meanwhile.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A TCP port on 127.0.0.1 that nothing listens on now. Processes start their search at different places.
///
/// # Errors
/// No port of the range is free.
pub(crate) fn free() -> Result<u16> {
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .subsec_nanos();
    let start = (nanos ^ std::process::id().wrapping_mul(2_654_435_761)) % u32::from(COUNT);
    for _ in 0..COUNT {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let Ok(offset) = u16::try_from((start + step) % u32::from(COUNT)) else {
            continue;
        };
        let port = FIRST + offset;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}
