//! What the kernel says of a process and of this machine.

use crate::model::Bytes;

/// Ticks a second in `/proc/PID/stat`: 100 on every Linux that corral runs on.
const TICKS: u64 = 100;

/// One reading of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// CPU time in milliseconds, all threads.
    pub cpu_ms: u64,
    /// Memory in RAM.
    pub memory: Bytes,
    /// Seconds since it began.
    pub age_seconds: u64,
}

impl Stat {
    /// Reads it; `None` when the process is gone.
    pub fn read(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        Self::parse(&stat, &status, &uptime)
    }

    fn parse(stat: &str, status: &str, uptime: &str) -> Option<Self> {
        // The second field is the program's name in brackets and may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |n: usize| fields.get(n)?.parse::<u64>().ok();
        let ticks = number(11)?.checked_add(number(12)?)?;
        let begun = number(19)? / TICKS;
        let now: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        Some(Self {
            cpu_ms: ticks.saturating_mul(1000 / TICKS),
            memory: kib(status, "VmRSS:")?,
            age_seconds: (now as u64).saturating_sub(begun),
        })
    }
}

/// The processes of this user.
pub fn own() -> Vec<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::getuid().as_raw();
    let all = std::fs::read_dir("/proc").into_iter().flatten();
    all.filter_map(Result::ok)
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            (entry.metadata().ok()?.uid() == user).then_some(pid)
        })
        .collect()
}

fn kib(text: &str, key: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(Bytes(number.saturating_mul(1024)))
}

/// Memory of this machine.
pub fn memory_total() -> Option<Bytes> {
    kib(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// This machine's name.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    crate::model::shown(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_and_short_lines() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 250 50 0 0 20 0 1 0 10000 0 0";
        let status = "Name:\tx\nVmRSS:\t  2048 kB\n";
        let read = Stat::parse(stat, status, "160.5 3\n").unwrap();
        assert_eq!(read.cpu_ms, 3000);
        assert_eq!(read.memory, Bytes::mib(2));
        assert_eq!(read.age_seconds, 60);
        assert_eq!(Stat::parse("7 (x) S", status, "1 1"), None);
        assert_eq!(Stat::parse("", "", ""), None);
        assert!(Stat::read(std::process::id()).is_some());
        assert!(memory_total().is_some());
    }
}
