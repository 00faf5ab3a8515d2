//! Typed, stable orders.

use std::cmp::Ordering;

use crate::model::Instance;

/// Columns that can be sorted by.
pub const COLUMNS: &[&str] = &[
    "name", "context", "kind", "state", "host", "cpu", "mem", "disk", "address", "up", "os", "id",
    "seen", "tags",
];

/// Orders by natural name (`n2` before `n10`), templates last, then ID.
pub fn by_name(a: &Instance, b: &Instance) -> Ordering {
    a.template
        .cmp(&b.template)
        .then_with(|| natural(&a.name, &b.name))
        .then_with(|| a.id.cmp(&b.id))
}

/// Orders by a column; what is not known comes last. `None` for an unknown column.
pub fn by_column(column: &str) -> Option<fn(&Instance, &Instance) -> Ordering> {
    Some(match column {
        "name" => by_name,
        "context" => |a, b| natural(&a.context, &b.context).then_with(|| by_name(a, b)),
        "kind" => |a, b| a.kind.cmp(&b.kind).then_with(|| by_name(a, b)),
        "state" => |a, b| a.state.cmp(&b.state).then_with(|| by_name(a, b)),
        "host" => {
            |a, b| known(a.host.as_deref(), b.host.as_deref(), natural).then_with(|| by_name(a, b))
        }
        "cpu" => |a, b| {
            let cpu = |i: &Instance| i.usage.and_then(|u| u.cpu_percent);
            known(cpu(a), cpu(b), |x, y| y.total_cmp(&x)).then_with(|| by_name(a, b))
        },
        "mem" => |a, b| {
            known(a.memory_bytes, b.memory_bytes, |x, y| y.cmp(&x)).then_with(|| by_name(a, b))
        },
        "disk" => {
            |a, b| known(a.disk_bytes, b.disk_bytes, |x, y| y.cmp(&x)).then_with(|| by_name(a, b))
        }
        "address" => {
            |a, b| known(address(a), address(b), |x, y| x.cmp(&y)).then_with(|| by_name(a, b))
        }
        "up" => |a, b| {
            known(a.uptime_seconds, b.uptime_seconds, |x, y| y.cmp(&x)).then_with(|| by_name(a, b))
        },
        "os" => |a, b| known(a.os.as_deref(), b.os.as_deref(), natural).then_with(|| by_name(a, b)),
        "id" => |a, b| a.id.cmp(&b.id),
        "seen" => |a, b| {
            b.observed_at
                .cmp(&a.observed_at)
                .then_with(|| by_name(a, b))
        },
        "tags" => |a, b| a.tags.cmp(&b.tags).then_with(|| by_name(a, b)),
        _ => return None,
    })
}

fn known<T>(a: Option<T>, b: Option<T>, order: impl Fn(T, T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => order(a, b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

fn address(instance: &Instance) -> Option<std::net::IpAddr> {
    instance.addresses.as_ref()?.first()?.ip.parse().ok()
}

/// Orders texts so that numbers in them count as numbers; case only breaks ties.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.chars().peekable(), b.chars().peekable());
    loop {
        match (left.peek().copied(), right.peek().copied()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let order = number(&mut left).cmp(&number(&mut right));
                if order != Ordering::Equal {
                    return order;
                }
            }
            (Some(x), Some(y)) => {
                let order = x.to_lowercase().cmp(y.to_lowercase());
                if order != Ordering::Equal {
                    return order;
                }
                left.next();
                right.next();
            }
        }
    }
}

/// A run of digits as (length without leading zeros, digits): compares as a number of any size.
fn number(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> (usize, String) {
    let mut digits = String::new();
    while let Some(c) = chars.peek().copied().filter(char::is_ascii_digit) {
        if !(digits.is_empty() && c == '0') {
            digits.push(c);
        }
        chars.next();
    }
    (digits.len(), digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn req_36_numbers_in_names_count_as_numbers() {
        let mut names = vec!["n10", "n2", "N1", "n02", "m", "n99999999999999999999999"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            ["m", "N1", "n02", "n2", "n10", "n99999999999999999999999"]
        );
    }

    proptest! {
        #[test]
        fn natural_is_a_total_order(a in "[a-c0-3]{0,6}", b in "[a-c0-3]{0,6}", c in "[a-c0-3]{0,6}") {
            prop_assert_eq!(natural(&a, &b), natural(&b, &a).reverse());
            if natural(&a, &b) != Ordering::Greater && natural(&b, &c) != Ordering::Greater {
                prop_assert_ne!(natural(&a, &c), Ordering::Greater);
            }
        }
    }
}
