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

/// Memory of this machine that no program could get if it asked: caches are not counted.
pub fn memory_used() -> Option<Bytes> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let (all, free) = (kib(&text, "MemTotal:")?, kib(&text, "MemAvailable:")?);
    Some(Bytes(all.0.saturating_sub(free.0)))
}

/// Processes that wanted a CPU, averaged over 1, 5 and 15 minutes.
pub fn load() -> Option<[f64; 3]> {
    load_in(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

fn load_in(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let mut next = || numbers.next()?.ok().filter(|n| n.is_finite());
    Some([next()?, next()?, next()?])
}

/// Seconds since this machine was started.
pub fn uptime() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(seconds as u64)
}

/// The kernel and its version.
pub fn kernel() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/ostype").ok()?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(format!("{} {}", name.trim(), release.trim()))
}

/// What the CPUs call themselves.
pub fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// What the distribution calls itself.
pub fn os_name() -> Option<String> {
    let text = std::fs::read_to_string("/etc/os-release").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim().trim_matches('"').to_owned())
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
        assert!(memory_used() < memory_total());
    }

    #[test]
    fn the_load_is_three_numbers() {
        assert_eq!(load_in("0.5 1 2.25 1/2 3\n"), Some([0.5, 1.0, 2.25]));
        for odd in ["", "0.5 1", "a b c", "NaN 1 2"] {
            assert_eq!(load_in(odd), None, "{odd}");
        }
    }
}
