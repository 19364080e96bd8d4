import { describe, expect, it } from "vitest"
import { fixForMissing, installCommand } from "./install.ts"

describe("installCommand", () => {
  it.each([
    ["crun", "apt-get", true, "apt-get install -y crun"],
    ["docker", "apt-get", false, "sudo apt-get install -y docker.io"],
    ["iproute2", "dnf", false, "sudo dnf install -y iproute"],
    ["tini", "apk", true, "apk add tini"],
    ["conmon", undefined, false, "install conmon with the system's package manager"],
  ] as const)("%s with %s (root: %s) → %s", (part, manager, root, command) => {
    expect(installCommand(part, manager, root)).toBe(command)
  })
})

describe("fixForMissing", () => {
  it("mends the path, rather than installing again, where the tool lies in a system directory", async () => {
    expect(await fixForMissing("sh", "util-linux")).toMatch(/^export PATH="\$PATH:\/.*bin"$/)
  })

  it("installs a tool that is nowhere", async () => {
    expect(await fixForMissing("no-such-tool", "tini")).toContain("tini")
  })
})
