//! Random loss, as rules of the switch.

use std::collections::BTreeMap;

use anyhow::Result;
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

/// Parts per million lost on the way to each host that loses any.
///
/// # Errors
/// If the switch can't be asked.
pub fn losses(lab: &Lab) -> Result<BTreeMap<Host, u32>> {
    let listed: Value = serde_json::from_str(&nft(lab, "-j list chains", "")?)?;
    let chains = listed["nftables"].as_array().into_iter().flatten();
    let loss = |entry: &Value| {
        let chain = entry.get("chain")?;
        let host = chain["table"].as_str()?.strip_prefix(TABLE)?.parse().ok()?;
        let ppm = chain["name"].as_str()?.strip_prefix(CHAIN)?.parse().ok()?;
        Some((host, ppm))
    };
    Ok(chains.filter_map(loss).collect())
}

/// Replaces what was there. Adding first makes sure that there is something to delete.
fn rules(host: Host, ppm: u32) -> String {
    let table = format!("table bridge {TABLE}{}", host.0);
    let gone = format!("add {table}\ndelete {table}\n");
    if ppm == 0 {
        return gone;
    }
    let port = host.port();
    format!(
        "{gone}{table} {{ chain {CHAIN}{ppm} {{ type filter hook forward priority 0; \
         oifname {port} numgen random mod {MILLION} < {ppm} drop; }}; }}\n"
    )
}

fn nft(lab: &Lab, arguments: &str, input: &str) -> Result<String> {
    let arguments = format!("netns exec {} nft {arguments}", lab.switch());
    tools::feed("ip", &arguments, input)
}
