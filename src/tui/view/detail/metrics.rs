//! Its load over the last minutes.

use crate::model::{Bytes, Instance, Sample};
use crate::tui::app::App;
use crate::tui::glyphs::Glyphs;
use crate::tui::theme::Role;

/// One curve.
struct Curve {
    title: &'static str,
    /// The end of the scale; `None` is the highest value.
    full: Option<f64>,
    print: fn(f64) -> String,
    value: fn(&Sample) -> Option<f64>,
}

fn percent(value: f64) -> String {
    format!("{value:.0} %")
}

fn bytes(value: f64) -> String {
    Bytes(value as u64).to_string()
}

fn rate(value: f64) -> String {
    format!("{}/s", Bytes(value as u64))
}

const CURVES: [Curve; 6] = [
    Curve {
        title: "CPU",
        full: Some(100.0),
        print: percent,
        value: |s| s.cpu_percent,
    },
    Curve {
        title: "Memory",
        full: None,
        print: bytes,
        value: |s| s.memory_bytes.map(|b| b.0 as f64),
    },
    Curve {
        title: "Disk read",
        full: None,
        print: rate,
        value: |s| s.disk_read_bps.map(|b| b as f64),
    },
    Curve {
        title: "Disk write",
        full: None,
        print: rate,
        value: |s| s.disk_write_bps.map(|b| b as f64),
    },
    Curve {
        title: "Received",
        full: None,
        print: rate,
        value: |s| s.net_rx_bps.map(|b| b as f64),
    },
    Curve {
        title: "Sent",
        full: None,
        print: rate,
        value: |s| s.net_tx_bps.map(|b| b as f64),
    },
];

/// A heading and a curve for each thing that is measured; higher curves where there is room.
pub(super) fn metrics(
    app: &App,
    row: &Instance,
    width: usize,
    height: usize,
) -> Vec<(String, Role)> {
    let samples = &app.detail.samples;
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        let text = if row.state.is_active() {
            "measuring …"
        } else {
            "It does not run: there is nothing to measure."
        };
        return vec![(text.to_owned(), Role::Muted)];
    };
    let seconds = last.at.as_second().saturating_sub(first.at.as_second());
    let shown: Vec<&Curve> = CURVES
        .iter()
        .filter(|curve| samples.iter().any(|s| (curve.value)(s).is_some()))
        .collect();
    let lines = height.saturating_sub(1) / shown.len().max(1);
    let high = lines.saturating_sub(1).clamp(1, 6);
    let mut out = vec![(
        format!(
            "last {}, one column {}",
            crate::model::age(u64::try_from(seconds).unwrap_or(0)),
            if samples.len() > width {
                "is a share of it"
            } else {
                "per reading"
            }
        ),
        Role::Muted,
    )];
    for curve in shown {
        let values: Vec<Option<f64>> = samples.iter().map(curve.value).map(finite).collect();
        let known = || values.iter().flatten().copied();
        let most = known().fold(0.0_f64, f64::max);
        let memory = (curve.title == "Memory")
            .then_some(row.memory_bytes)
            .flatten();
        let full = curve
            .full
            .or(memory.map(|b| b.0 as f64))
            .unwrap_or(most)
            .max(most);
        let now = values.last().copied().flatten();
        out.push((
            format!(
                "{:<11}{:>12}   highest {}",
                curve.title,
                now.map_or_else(|| "-".to_owned(), curve.print),
                (curve.print)(most),
            ),
            Role::Title,
        ));
        for line in chart(&values, full, width, high, app.setup.glyphs) {
            out.push((line, Role::Accent));
        }
    }
    out
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite() && *v >= 0.0)
}

/// The newest `width` values (of more, the highest of each share) as columns of blocks, `high` lines of them. What is not
/// known stays empty.
fn chart(
    values: &[Option<f64>],
    full: f64,
    width: usize,
    high: usize,
    glyphs: Glyphs,
) -> Vec<String> {
    let steps = glyphs.steps();
    let share = values.len().div_ceil(width.max(1)).max(1);
    let columns: Vec<Option<f64>> = values
        .chunks(share)
        .map(|chunk| chunk.iter().flatten().copied().reduce(f64::max))
        .collect();
    let levels = steps.len() - 1;
    (0..high)
        .rev()
        .map(|line| {
            columns
                .iter()
                .map(|value| {
                    let part = value.map_or(0.0, |v| if full > 0.0 { v / full } else { 0.0 });
                    let filled = (part * (high * levels) as f64).round() as usize;
                    // Something is there, however little.
                    let filled = filled.max(usize::from(value.is_some_and(|v| v > 0.0)));
                    steps[filled.saturating_sub(line * levels).min(levels)]
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_keep_their_width_and_the_highest_of_a_share() {
        let values: Vec<Option<f64>> = (0..100)
            .map(|n| Some(if n == 37 { 100.0 } else { 1.0 }))
            .collect();
        let lines = chart(&values, 100.0, 20, 2, Glyphs::Unicode);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].matches('█').count(), 1);
        assert!(lines.iter().all(|line| line.chars().count() <= 20));
        let ascii = chart(
            &[None, Some(0.0), Some(f64::MAX)],
            f64::MAX,
            9,
            1,
            Glyphs::Ascii,
        );
        assert_eq!(ascii, ["  #"]);
        assert!(chart(&[], 0.0, 0, 1, Glyphs::Ascii)[0].is_empty());
    }
}
