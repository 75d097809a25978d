//! Free local ports for servers that cannot pick one themselves.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

/// Below the range the kernel gives to outgoing connections, so that no client takes a port meanwhile.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Ports that this process has assigned. Their server may not be listening yet, or is being restarted.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A TCP port on 127.0.0.1 that nothing listens on now, and that was not given before. Processes start their search at
/// different places.
///
/// # Errors
/// No port of the range is free.
pub fn free() -> Result<u16> {
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .subsec_nanos();
    let start = (nanos ^ std::process::id().wrapping_mul(2_654_435_761)) % u32::from(COUNT);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for step in 0..u32::from(COUNT) {
        let Ok(offset) = u16::try_from((start + step) % u32::from(COUNT)) else {
            continue;
        };
        let port = FIRST + offset;
        if !given.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports: Vec<u16> = (0..200).map_while(|_| free().ok()).collect();
        let different: BTreeSet<u16> = ports.iter().copied().collect();
        assert_eq!((ports.len(), different.len()), (200, 200));
    }
}
