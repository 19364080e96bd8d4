import { describe, expect, it } from "vitest"
import { parseMembership } from "./membership.ts"

describe("parseMembership", () => {
  it.each([
    ["a v2 host", "0::/user.slice/session-3.scope\n", { "": "/user.slice/session-3.scope" }],
    [
      "a hybrid host",
      "4:memory:/a\n2:cpu,cpuacct:/\n1:name=systemd:/init\n0::/\n",
      { memory: "/a", cpu: "/", cpuacct: "/", "name=systemd": "/init", "": "/" },
    ],
    ["a path with a colon", "0::/a:b/c\n", { "": "/a:b/c" }],
    ["nothing", "", {}],
    ["lines of another form", "garbage\n:\n", {}],
  ])("reads %s", (_, text, expected) => {
    expect(Object.fromEntries(parseMembership(text))).toEqual(expected)
  })
})
