import { describe, expect, test } from "vitest";
import { quotaKey } from "../../src/domain/client-address.js";
import { ClientAddresses } from "../../src/transport/connections/client-addresses.js";

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["::", "0:0:0:0::/64"],
  ["1::", "1:0:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["", ""],
])("quotas count %s as %s", (address, key) => {
  expect(quotaKey(address)).toBe(key);
});

const networks = [
  { address: "10.0.0.0", prefixBits: 8 },
  { address: "fd00::", prefixBits: 8 },
  { address: "::ffff:172.16.0.0", prefixBits: 108 },
  { address: "192.0.2.7", prefixBits: 32 },
];

describe("behind proxies", () => {
  const clients = new ClientAddresses(networks);

  test.each([
    ["no header", "10.0.0.1", undefined, "10.0.0.1"],
    ["one hop", "10.0.0.1", "203.0.113.9", "203.0.113.9"],
    ["a spoofed left part", "10.0.0.1", "1.2.3.4, 203.0.113.9", "203.0.113.9"],
    ["several trusted hops", "10.0.0.1", "1.2.3.4,203.0.113.9,\t192.0.2.7 , 172.20.1.1", "203.0.113.9"],
    ["an IPv4-mapped peer", "::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9"],
    ["an IPv6 peer", "fd12::5", "2001:DB8:0:0::1", "2001:db8::1"],
    ["an IPv4-mapped client", "10.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"],
    ["a mapped trusted hop in hexadecimal", "10.0.0.1", "203.0.113.9, ::FFFF:0a01:0203", "203.0.113.9"],
    ["trusted proxies only", "10.0.0.1", "10.1.1.1, 10.2.2.2", "10.1.1.1"],
    ["a header from elsewhere", "198.51.100.1", "203.0.113.9", "198.51.100.1"],
    ["a mapped peer from elsewhere", "::ffff:198.51.100.1", "203.0.113.9", "198.51.100.1"],
    ["no address", "10.0.0.1", "unknown", "10.0.0.1"],
    ["an empty header", "10.0.0.1", "", "10.0.0.1"],
    ["an address with a port", "10.0.0.1", "203.0.113.9:1234", "10.0.0.1"],
    ["an address with a zone", "10.0.0.1", "fe80::1%eth0", "10.0.0.1"],
    ["nonsense before the client", "10.0.0.1", "x, 203.0.113.9", "203.0.113.9"],
    ["nonsense behind the client", "10.0.0.1", "203.0.113.9, x", "10.0.0.1"],
    ["more proxies than are looked at", "10.0.0.1", `203.0.113.9${", 10.0.0.2".repeat(5000)}`, "10.0.0.2"],
    ["a connection that is gone", undefined, "203.0.113.9", ""],
  ])("%s", (_case, peer, header, client) => {
    expect(clients.of(peer, header)).toBe(client);
    expect(new ClientAddresses().of(peer, header)).toBe((peer ?? "").replace("::ffff:", ""));
  });
});
