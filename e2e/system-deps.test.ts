import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import { requires } from "@berth/testing/requires"
import { afterEach, beforeEach, expect, it } from "vitest"

const script = fileURLToPath(new URL("../scripts/system-deps", import.meta.url))

/** The programs that the script itself runs. */
const SHELL_TOOLS = [
  "bash",
  "cat",
  "chmod",
  "env",
  "flock",
  "grep",
  "mktemp",
  "rm",
  "sleep",
  "stat",
  "tee",
]
const FOR_RUN = ["crun", "runc", "conmon", "tini", "perl", "git", "ip", "nft", "iptables"]
const FOR_TEST = [...FOR_RUN, "dockerd", "pip3", "strace", "cargo", "git-lfs", "chromium"]

/** A machine as the script sees it: `bin` is its $PATH, `sbin` stands in for /usr/sbin. */
let machine: { bin: string; sbin: string; calls: string; directory: string }

beforeEach(async () => {
  const directory = await mkdtemp(join(tmpdir(), "berth-system-deps-"))
  machine = {
    directory,
    bin: join(directory, "bin"),
    sbin: join(directory, "sbin"),
    calls: join(directory, "calls"),
  }
  await Promise.all([machine.bin, machine.sbin].map((path) => mkdir(path)))
  await Promise.all(SHELL_TOOLS.map((tool) => symlink(`/usr/bin/${tool}`, join(machine.bin, tool))))
})
afterEach(() => rm(machine.directory, { recursive: true, force: true }))

const put = (tool: string, body: string) =>
  writeFile(join(machine.bin, tool), `#!/usr/bin/bash\n${body}\n`, { mode: 0o755 })

const putTools = (tools: readonly string[]) => Promise.all(tools.map((tool) => put(tool, "exit 0")))

/** An apt that knows `known`, fails `failures` times to install, then makes a tool for each package. */
const putApt = async ({ known = true, failures = 0 } = {}) => {
  await put("apt-cache", known ? "exit 0" : "exit 100")
  await put(
    "apt-get",
    `echo "$DEBIAN_FRONTEND $*" >> '${machine.calls}'
[[ -x /usr/sbin/policy-rc.d ]] && echo "services forbidden" >> '${machine.calls}'
[[ $* == *" install "* ]] || exit 0
(( $(grep -c ' install ' '${machine.calls}') > ${failures} )) || { echo "E: no luck" >&2; exit 100; }
for package in "\${@: -1}"; do echo 'exit 0' > "${machine.bin}/$package"; chmod 755 "${machine.bin}/$package"; done`,
  )
}

const aptCalls = async () =>
  (await readFile(machine.calls, "utf8").catch(() => "")).trim().split("\n").filter(Boolean)

/** Runs the script on that machine, as root of a user namespace or without rights in it. */
const systemDeps = async (args: readonly string[], { as = "root" as "root" | "nobody" } = {}) => {
  const mounted = `mount --bind '${machine.sbin}' /usr/sbin && exec "$0" "$@"`
  const namespace =
    as === "root"
      ? [
          "--user",
          "--map-root-user",
          "--mount",
          "/usr/bin/env",
          "PATH=/usr/bin",
          "sh",
          "-c",
          mounted,
        ]
      : ["--user"]
  const child = spawn(
    "unshare",
    [...namespace, "/usr/bin/env", `PATH=${machine.bin}`, script, ...args],
    { stdio: ["ignore", "pipe", "pipe"] },
  )
  const ended = once(child, "close")
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  const [status] = (await ended) as [number | null]
  return { status, output: stdout + stderr }
}

requires("userNamespaces").describe("scripts/system-deps", () => {
  it("does nothing, and says nothing, where everything is there", async () => {
    await putTools(FOR_TEST)
    await putApt()
    expect(await systemDeps(["--for", "test", "--strict"])).toEqual({ status: 0, output: "" })
    expect(await aptCalls()).toEqual([])
  })

  it("installs only missing packages, does not fetch lists that it has, and starts no service", async () => {
    await putTools(FOR_RUN.filter((tool) => tool !== "tini"))
    await putApt()
    const { status, output } = await systemDeps(["--strict"])
    expect(output).toBe("system-deps: installing with apt-get: tini\n")
    expect(status).toBe(0)
    expect(await aptCalls()).toEqual([
      expect.stringMatching(/^noninteractive -y .*install --no-install-recommends tini$/),
      "services forbidden",
    ])
    expect(await readdir(machine.sbin)).toEqual([])
  })

  it("leaves the machine's own policy about services as it is", async () => {
    await putTools(FOR_RUN.filter((tool) => tool !== "tini"))
    await putApt()
    const policy = join(machine.sbin, "policy-rc.d")
    await writeFile(policy, "#!/bin/sh\nexit 101\n", { mode: 0o755 })
    await systemDeps([])
    expect(await readFile(policy, "utf8")).toBe("#!/bin/sh\nexit 101\n")
  })

  it("fetches the lists first where a package is unknown", async () => {
    await putTools(FOR_RUN.filter((tool) => tool !== "tini"))
    await putApt({ known: false })
    expect((await systemDeps(["--strict"])).status).toBe(0)
    expect((await aptCalls()).filter((call) => call !== "services forbidden")).toEqual([
      expect.stringMatching(/ update$/),
      expect.stringMatching(/ install .*tini$/),
    ])
  })

  it("fetches the lists and tries again where a package has moved", async () => {
    await putTools(FOR_RUN.filter((tool) => tool !== "tini"))
    await putApt({ failures: 1 })
    expect((await systemDeps(["--strict"])).status).toBe(0)
    expect((await aptCalls()).filter((call) => call !== "services forbidden")).toEqual([
      expect.stringMatching(/ install .*tini$/),
      expect.stringMatching(/ update$/),
      expect.stringMatching(/ install .*tini$/),
    ])
  })

  it.each([
    { args: [], expected: 0 },
    { args: ["--strict"], expected: 1 },
  ])(
    "repeats apt's words, and names what stays missing, with status $expected for $args",
    async ({ args, expected }) => {
      await putTools(FOR_RUN.filter((tool) => tool !== "tini"))
      await putApt({ failures: 9 })
      const { status, output } = await systemDeps(args)
      expect(output).toContain("E: no luck")
      expect(output).toContain("tini: is the first process in a sandbox")
      expect(status).toBe(expected)
      expect(await readdir(machine.sbin)).toEqual([])
    },
  )

  it.each([
    { args: ["--for", "test"], expected: 0 },
    { args: ["--for", "test", "--strict"], expected: 1 },
  ])(
    "says precisely what to install where there is no apt, with status $expected for $args",
    async ({ args, expected }) => {
      await putTools(FOR_RUN.filter((tool) => tool !== "nft"))
      const { status, output } = await systemDeps(args)
      expect(
        output,
      ).toBe(`system-deps: these are missing, and there is no apt-get here. Please install them:
    nft: bounds where a sandbox may connect
    dockerd: the tests of the docker backend start an engine of their own
    pip3: some tests install packages of Python
    strace: some tests watch system calls
    cargo: a test builds a program of Rust
    git-lfs: a test clones a repo with large files
    chromium: pages are tried in a browser
system-deps: on Debian and Ubuntu: apt-get install --no-install-recommends nftables docker.io python3-pip strace cargo git-lfs chromium
`)
      expect(status).toBe(expected)
    },
  )

  it("installs nothing without the right to, and says so", async () => {
    await putTools(FOR_RUN.filter((tool) => tool !== "tini"))
    await putApt()
    const { status, output } = await systemDeps([], { as: "nobody" })
    expect(output).toContain("these are missing, and this needs root, or sudo without a password")
    expect(output).toContain("apt-get install --no-install-recommends tini")
    expect(await aptCalls()).toEqual([])
    expect(status).toBe(0)
  })

  it("only prints with --dry-run", async () => {
    await putTools(FOR_RUN.filter((tool) => tool !== "tini" && tool !== "crun"))
    await putApt()
    const { output } = await systemDeps(["--dry-run"])
    expect(output).toBe("system-deps: would install with apt-get: crun tini\n")
    expect(await aptCalls()).toEqual([])
  })

  it.each([["--for"], ["--for", "everything"], ["--nonsense"]])(
    "refuses %s %s",
    async (...args) => {
      const { status, output } = await systemDeps(args)
      expect(output).toContain("usage: scripts/system-deps")
      expect(status).toBe(64)
    },
  )
})
