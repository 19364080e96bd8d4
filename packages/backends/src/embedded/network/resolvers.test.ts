import { describe, expect, it } from "vitest"
import { chooseResolvers, parseResolvConf } from "./resolvers.ts"

describe("the host's name servers", () => {
  it("are those of resolv.conf that speak IPv4", () => {
    const text =
      "# nameserver 1.1.1.1\nsearch example.org\nnameserver fe80::1%eth0\n nameserver\t192.0.2.53 \nnameserver 10.0.0.53"
    expect(parseResolvConf(text)).toEqual(["192.0.2.53", "10.0.0.53"])
  })

  it("name systemd's upstream before systemd's listener, which answers on the loopback device alone", () => {
    expect(chooseResolvers("nameserver 127.0.0.53", "nameserver 10.0.0.53")).toEqual([
      "10.0.0.53",
      "127.0.0.53",
    ])
  })

  it("are those on the loopback where no others are known", () => {
    expect(chooseResolvers("nameserver 127.0.0.1", "")).toEqual(["127.0.0.1"])
  })

  it("are left in the host's order", () => {
    const own = "nameserver 192.0.2.53\nnameserver 127.0.0.1"
    expect(chooseResolvers(own, "nameserver 10.0.0.53")).toEqual(["192.0.2.53", "127.0.0.1"])
  })

  it("include the host itself for 0.0.0.0", () => {
    expect(parseResolvConf("nameserver 0.0.0.0")).toEqual(["127.0.0.1"])
  })
})
