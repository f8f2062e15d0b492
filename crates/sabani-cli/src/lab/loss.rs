//! Random loss, as rules of the switch.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    args::LossArgs,
    names::{Host, Lab},
};
use crate::tools;

const MILLION: u32 = 1_000_000;
/// A host's table, and its chain, which says in its name how much is lost.
const TABLE: &str = "loss_to_";
const CHAIN: &str = "ppm_";

/// Runs `sabani lab loss`.
///
/// # Errors
/// Without root, or if there is no such lab or host.
pub fn run(args: &LossArgs) -> Result<()> {
    tools::need_root("")?;
    let lab = &args.name.lab;
    let hosts = match args.host {
        Some(host) => lab.check(host).map(|()| vec![host])?,
        None => lab.running()?,
    };
    let rules: String = hosts.iter().map(|&host| rules(host, args.ppm)).collect();
    nft(lab, "-f -", &rules).map(|_| ())
}

/// What a host loses at random of what is on the way to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Parts per million that are to be lost.
    pub ppm: u32,
    /// Packets lost since that was said.
    pub packets: u64,
}

/// Random loss on the way to each host that has any.
///
/// # Errors
/// If the switch can't be asked.
pub fn losses(lab: &Lab) -> Result<BTreeMap<Host, Loss>> {
    parse(&nft(lab, "-j list ruleset", "")?)
}

fn parse(listed: &str) -> Result<BTreeMap<Host, Loss>> {
    let listed: Value = serde_json::from_str(listed).context("cannot understand `nft`")?;
    let entries = listed["nftables"].as_array().into_iter().flatten();
    let loss = |entry: &Value| {
        let rule = entry.get("rule")?;
        let host = rule["table"].as_str()?.strip_prefix(TABLE)?.parse().ok()?;
        let ppm = rule["chain"].as_str()?.strip_prefix(CHAIN)?.parse().ok()?;
        let mut parts = rule["expr"].as_array()?.iter();
        let packets = parts.find_map(|part| part["counter"]["packets"].as_u64())?;
        Some((host, Loss { ppm, packets }))
    };
    Ok(entries.filter_map(loss).collect())
}

/// Replaces what was there. Adding first makes sure that there is something to delete.
fn rules(host: Host, ppm: u32) -> String {
    let table = format!("table bridge {TABLE}{}", host.0);
    let gone = format!("add {table}\ndelete {table}\n");
    if ppm == 0 {
        return gone;
    }
    let port = host.port();
    // No number is as large as that, for nft.
    let which = match ppm {
        MILLION => String::new(),
        ppm => format!("numgen random mod {MILLION} < {ppm}"),
    };
    format!(
        "{gone}{table} {{ chain {CHAIN}{ppm} {{ type filter hook forward priority 0; \
         oifname {port} {which} counter drop; }}; }}\n"
    )
}

fn nft(lab: &Lab, arguments: &str, input: &str) -> Result<String> {
    let arguments = format!("netns exec {} nft {arguments}", lab.switch());
    tools::feed("ip", &arguments, input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_nft_says() {
        let listed = r#"{"nftables": [{"metainfo": {"version": "1.1.3"}},
            {"table": {"family": "bridge", "name": "loss_to_3", "handle": 1}},
            {"chain": {"family": "bridge", "table": "loss_to_3", "name": "ppm_25000", "hook": "forward"}},
            {"rule": {"family": "bridge", "table": "loss_to_3", "chain": "ppm_25000", "handle": 2, "expr": [
                {"match": {"op": "<", "left": {"numgen": {"mode": "random", "mod": 1000000}}, "right": 25000}},
                {"counter": {"packets": 7, "bytes": 9000}}, {"drop": null}]}},
            {"rule": {"family": "bridge", "table": "other", "chain": "ppm_1", "expr": []}}]}"#;
        let expected = Loss {
            ppm: 25_000,
            packets: 7,
        };
        assert_eq!(parse(listed).unwrap(), [(Host(3), expected)].into());
    }
}
