//! Typed, stable orders.

use std::cmp::Ordering;

use crate::model::Instance;

/// Columns that can be sorted by.
pub const COLUMNS: &[&str] = &[
    "name",
    "context",
    "kind",
    "state",
    "host",
    "cpu",
    "mem",
    "disk",
    "address",
    "up",
    "os",
    "id",
    "seen",
    "tags",
    "namespace",
    "auto",
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
        "tags" => |a, b| known(tags(a), tags(b), Ord::cmp).then_with(|| by_name(a, b)),
        "namespace" => |a, b| {
            known(a.namespace.as_deref(), b.namespace.as_deref(), natural)
                .then_with(|| by_name(a, b))
        },
        // Those that start with their host first.
        "auto" => {
            |a, b| known(a.autostart, b.autostart, |x, y| y.cmp(&x)).then_with(|| by_name(a, b))
        }
        _ => return None,
    })
}

/// Whether a row has something to be sorted by in that column: without it a row comes last, whichever way round.
pub fn is_known(column: &str, row: &Instance) -> bool {
    match column {
        "host" => row.host.is_some(),
        "cpu" => row.usage.and_then(|u| u.cpu_percent).is_some(),
        "mem" => row.memory_bytes.is_some(),
        "disk" => row.disk_bytes.is_some(),
        "address" => address(row).is_some(),
        "up" => row.uptime_seconds.is_some(),
        "os" => row.os.is_some(),
        "tags" => !row.tags.is_empty(),
        "namespace" => row.namespace.is_some(),
        "auto" => row.autostart.is_some(),
        _ => true,
    }
}

fn tags(instance: &Instance) -> Option<&[String]> {
    Some(instance.tags.as_slice()).filter(|tags| !tags.is_empty())
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
    let (mut left, mut right) = (a, b);
    loop {
        // Names that begin alike are the rule in a big fleet: letters of ASCII need no decoding.
        let plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_digit();
        let alike = left
            .bytes()
            .zip(right.bytes())
            .take_while(|(one, other)| plain(*one) && one.eq_ignore_ascii_case(other))
            .count();
        (left, right) = (&left[alike..], &right[alike..]);
        let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) else {
            // The shorter first; equal but for case or zeros: by bytes.
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        };
        let order = if x.is_ascii_digit() && y.is_ascii_digit() {
            let (one, other) = (number(&mut left), number(&mut right));
            one.len().cmp(&other.len()).then_with(|| one.cmp(other))
        } else {
            left = &left[x.len_utf8()..];
            right = &right[y.len_utf8()..];
            x.to_lowercase().cmp(y.to_lowercase())
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Takes a run of digits off, without its leading zeros: longer is greater, whatever the size.
fn number<'a>(text: &mut &'a str) -> &'a str {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    digits.trim_start_matches('0')
}

/// Bytes that compare as [`natural`] does, for maps that are kept in order.
pub(super) fn natural_key(text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_digit() {
            let digits = number(&mut rest);
            key.push(b'0');
            key.extend_from_slice(
                &u32::try_from(digits.len())
                    .unwrap_or(u32::MAX)
                    .to_be_bytes(),
            );
            key.extend_from_slice(digits.as_bytes());
        } else {
            let mut utf8 = [0; 4];
            for lower in c.to_lowercase() {
                key.extend_from_slice(lower.encode_utf8(&mut utf8).as_bytes());
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    // Equal but for case or zeros: by bytes.
    key.push(0);
    key.extend_from_slice(text.as_bytes());
    key
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
        fn keys_order_as_texts_do(a in "[a-cA-C0-3-]{0,6}", b in "[a-cA-C0-3-]{0,6}") {
            prop_assert_eq!(natural_key(&a).cmp(&natural_key(&b)), natural(&a, &b));
        }

        #[test]
        fn natural_is_a_total_order(a in "[a-c0-3]{0,6}", b in "[a-c0-3]{0,6}", c in "[a-c0-3]{0,6}") {
            prop_assert_eq!(natural(&a, &b), natural(&b, &a).reverse());
            if natural(&a, &b) != Ordering::Greater && natural(&b, &c) != Ordering::Greater {
                prop_assert_ne!(natural(&a, &c), Ordering::Greater);
            }
        }
    }
}
