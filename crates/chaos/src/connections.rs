//! Which connections a server has, as the system tells it.

use std::{collections::BTreeSet, fs};

/// The ports of those clients whose connections to this port are still open at its end. One that
/// the server has closed is not, also where the system still tries to tell the client so.
pub(crate) fn clients_of(port: u16) -> anyhow::Result<BTreeSet<u16>> {
    Ok(listed(&fs::read_to_string("/proc/net/tcp")?, port))
}

fn listed(table: &str, port: u16) -> BTreeSet<u16> {
    let client = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, near, far, _, _, _, _, _, _, inode, ..] = *fields else { return None };
        // What no process has open has no inode.
        (port_of(near) == Some(port) && inode != "0").then(|| port_of(far)).flatten()
    };
    table.lines().filter_map(client).collect()
}

/// The port of an address such as `0100007F:1F90`.
fn port_of(address: &str) -> Option<u16> {
    u16::from_str_radix(address.split_once(':')?.1, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_for_as_long_as_the_server_has_it_open() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4242 1 0
   1: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0
   2: 0100007F:1F90 0100007F:9C41 04 00000001:00000000 01:00000014 00000001     0        0 0 2 0
   3: 0100007F:1F91 0100007F:9C42 01 00000000:00000000 00:00000000 00000000     0        0 4244 1 0
";
        assert_eq!(listed(table, 8080), BTreeSet::from([40_000]));
    }
}
