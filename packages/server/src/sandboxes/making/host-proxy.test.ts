import { describe, expect, it } from "vitest"
import { proxyEnvironment } from "./host-proxy.ts"

const OPEN = { kind: "open" } as const
const PROXY = "http://proxy.example:3128"

describe("proxyEnvironment", () => {
  it("gives the host's proxies in both cases, and keeps loopback out of them", () => {
    const host = {
      https_proxy: PROXY,
      ALL_PROXY: "socks5://proxy.example",
      NO_PROXY: "a.example, b",
    }
    const noProxy = "a.example,b,localhost,127.0.0.1,::1"
    expect(proxyEnvironment(host, {}, OPEN)).toEqual({
      HTTPS_PROXY: PROXY,
      https_proxy: PROXY,
      ALL_PROXY: "socks5://proxy.example",
      all_proxy: "socks5://proxy.example",
      NO_PROXY: noProxy,
      no_proxy: noProxy,
    })
  })

  it("leaves out a proxy that the workspace sets in either case", () => {
    const given = proxyEnvironment({ HTTPS_PROXY: PROXY }, { https_proxy: "http://own" }, OPEN)
    expect(given).not.toHaveProperty("HTTPS_PROXY")
    expect(given).not.toHaveProperty("https_proxy")
  })

  it.each(["http://127.0.0.1:3128", "localhost:3128", "http://me:secret@[::1]:3128"])(
    "leaves out a proxy on the host's loopback: %s",
    (proxy) => {
      expect(proxyEnvironment({ HTTP_PROXY: proxy }, {}, OPEN)).toEqual({})
    },
  )

  it("gives nothing without a proxy or without a network", () => {
    expect(proxyEnvironment({ NO_PROXY: "a", HTTP_PROXY: "" }, {}, OPEN)).toEqual({})
    expect(proxyEnvironment({ HTTP_PROXY: PROXY }, {}, { kind: "none" })).toEqual({})
  })
})
