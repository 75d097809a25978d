//! A program on a pseudo-terminal, and what a person would see of it.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU16;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// How long a test waits for what it expects.
const LIMIT: Duration = Duration::from_mins(1);
/// Seconds of the unit of times in `/proc`.
const TICK: f64 = 0.01;
/// What begins a frame.
const FRAME: &[u8] = b"\x1b[?2026h";

pub struct Terminal {
    child: Child,
    control: File,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

struct Seen {
    parser: vt100::Parser,
    frames: usize,
    ended: bool,
}

impl Terminal {
    /// Runs the plugin in a terminal of this size.
    pub fn run(args: &[&str], columns: u16, lines: u16) -> Terminal {
        let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&control).unwrap();
        unlockpt(&control).unwrap();
        let path = ptsname(&control, Vec::new()).unwrap();
        tcsetwinsize(&control, size(columns, lines)).unwrap();
        let open = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY;
            File::from(rustix::fs::open(path.as_c_str(), flags, Mode::empty()).unwrap())
        };
        let child = Command::new(env!("CARGO_BIN_EXE_kubectl-mcu"))
            .args(args)
            .env_clear()
            .env("TERM", "xterm-256color")
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        let parser = vt100::Parser::new(number(lines), number(columns), 0);
        let seen = Seen {
            parser,
            frames: 0,
            ended: false,
        };
        let seen = Arc::new((Mutex::new(seen), Condvar::new()));
        let control = File::from(control);
        let mut output = control.try_clone().unwrap();
        let target = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            loop {
                // When the program has ended, reading fails.
                let count = output.read(&mut bytes).unwrap_or_default();
                let mut seen = target.0.lock().unwrap();
                seen.ended = count == 0;
                seen.parser.process(&bytes[..count]);
                seen.frames += bytes[..count]
                    .windows(FRAME.len())
                    .filter(|part| *part == FRAME)
                    .count();
                target.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        Terminal { child, control, seen }
    }

    /// Waits until the screen is as expected.
    pub fn wait_for(&mut self, what: &str, is_expected: impl Fn(&str) -> bool) {
        let (seen, changed) = &*self.seen;
        let waits = |seen: &mut Seen| !seen.ended && !is_expected(&seen.parser.screen().contents());
        let (seen, _) = changed
            .wait_timeout_while(seen.lock().unwrap(), LIMIT, waits)
            .unwrap();
        let screen = seen.parser.screen().contents();
        assert!(is_expected(&screen), "waited for {what}:\n{screen}");
    }

    /// Changes the size as a person does who drags the corner of the window.
    pub fn resize(&mut self, columns: u16, lines: u16) {
        self.seen
            .0
            .lock()
            .unwrap()
            .parser
            .screen_mut()
            .set_size(number(lines), number(columns));
        tcsetwinsize(&self.control, size(columns, lines)).unwrap();
        // The kernel tells only programs whose controlling terminal this is.
        self.signal(Signal::WINCH);
    }

    /// Asks the program to end, as `timeout` does.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Presses Ctrl-Z, and waits until the program has stopped.
    pub fn stop(&self) {
        self.signal(Signal::TSTP);
        let begun = std::time::Instant::now();
        while !self.is_stopped() {
            assert!(begun.elapsed() < LIMIT, "the program stops");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Continues the program, as `fg` does.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn is_stopped(&self) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        text.rsplit_once(')').unwrap().1.trim_start().starts_with('T')
    }

    /// Waits until the alternate screen is shown, or is not.
    pub fn wait_for_alternate_screen(&self, shown: bool) {
        let (seen, changed) = &*self.seen;
        let is = |seen: &Seen| seen.parser.screen().alternate_screen() == shown;
        let (seen, _) = changed
            .wait_timeout_while(seen.lock().unwrap(), LIMIT, |seen| !seen.ended && !is(seen))
            .unwrap();
        assert!(is(&seen) && seen.parser.screen().hide_cursor() == shown);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Number of frames so far.
    pub fn frames(&self) -> usize {
        self.seen.0.lock().unwrap().frames
    }

    /// The time for which the program has used a processor.
    pub fn cpu_time(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name of the program, which is in parentheses, may contain anything.
        let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: f64 = [fields[11], fields[12]]
            .map(|field| field.parse::<f64>().unwrap())
            .iter()
            .sum();
        Duration::from_secs_f64(ticks * TICK)
    }

    /// Waits for the end of the program. Returns its exit code and what it leaves on the screen.
    pub fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let (seen, changed) = &*self.seen;
        let (seen, _) = changed
            .wait_timeout_while(seen.lock().unwrap(), LIMIT, |seen| !seen.ended)
            .unwrap();
        (code, seen.parser.screen().contents())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

const fn size(columns: u16, lines: u16) -> Winsize {
    Winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
