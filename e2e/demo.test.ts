import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import { withoutWaits } from "@berth/testing/without-waits"
import { describe, expect, it, onTestFinished } from "vitest"

/** Covers the making of a toolbox with an agent and the boot of a sandbox, beside other tests. */
const DEMO_LIMIT_MS = 120_000

const PROGRESS =
  /^(reading|copying|checking|boot:|session|agent:|env:|→|succeeded|nothing has changed|[a-z-]+ is) .*\n|^succeeded\n/gm

const ROOT = fileURLToPath(new URL("..", import.meta.url))

const makeDir = (): string => {
  const dir = mkdtempSync(join(tmpdir(), "berth-demo-test-"))
  // Open to pass through, as a directory for temporary files is: sandboxes have files in it.
  chmodSync(dir, 0o711)
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** Starts the demo of a project; `temp` is where it may put its files. */
const startDemo = (root: string, temp: string) => {
  const child = spawn(process.execPath, [join(root, "scripts/demo.ts")], {
    // The demo ignores the configuration of its caller, even a wrong one.
    env: { ...process.env, TMPDIR: temp, BERTH_PORT: "wrong" },
    stdio: ["ignore", "pipe", "pipe"],
  })
  onTestFinished(() => void child.kill("SIGKILL"))
  return child
}

const exitOf = async (child: ChildProcess) => (await once(child, "close"))[0]

/** Makes a project whose `berth` is this script. */
const makeProject = (script: string): string => {
  const root = makeDir()
  cpSync(join(ROOT, "scripts"), join(root, "scripts"), { recursive: true })
  writeFileSync(join(root, "scripts/system-deps"), "#!/bin/sh\n", { mode: 0o755 })
  writeFileSync(join(root, "package.json"), '{ "type": "module" }')
  mkdirSync(join(root, "bin"))
  writeFileSync(join(root, "bin/berth"), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return root
}

describe("npm run demo", () => {
  it(
    "does every step and leaves no file behind",
    async () => {
      const temp = makeDir()
      const demo = startDemo(ROOT, temp)
      const [stdout, stderr, status] = await Promise.all([
        text(demo.stdout),
        text(demo.stderr),
        exitOf(demo),
      ])
      // Long steps report their progress.
      expect({
        stderr: withoutWaits(stderr).replaceAll(PROGRESS, ""),
        status,
      }).toEqual({
        stderr: "",
        status: 0,
      })
      const titles = [...stdout.matchAll(/^\[(\d+)\/(\d+)\] /gm)]
      expect(titles.map(([, number]) => Number(number))).toEqual(
        titles.map((_, index) => index + 1),
      )
      expect(titles.at(-1)?.[1]).toBe(titles.at(-1)?.[2])
      expect(stdout).toMatch(
        /"version":.*Berth .* answers on .*oci-runtime.*ready after .*✓ git-sync .*I am agent of .*speaks of the weather.*\+The weather is fine.*every step was done/s,
      )
      expect(readdirSync(temp)).toEqual([])
    },
    DEMO_LIMIT_MS,
  )

  it("fails when a step fails, says why, and leaves no file behind", async () => {
    const temp = makeDir()
    const demo = startDemo(makeProject("echo 'berth: no luck' >&2; exit 1"), temp)
    const [stderr, status] = await Promise.all([text(demo.stderr), exitOf(demo)])
    expect(status).toBe(1)
    expect(stderr).toContain("berth: no luck")
    expect(stderr).toContain("The demo failed: the server ended with 1")
    expect(readdirSync(temp)).toEqual([])
  })

  it("stops its server and cleans up when it is interrupted", async () => {
    const [temp, notes] = [makeDir(), makeDir()]
    const root = makeProject(
      `trap 'kill $!; exit 0' TERM; sleep 60 & echo $$ > ${notes}/draft; mv ${notes}/draft ${notes}/pid; wait`,
    )
    const demo = startDemo(root, temp)
    const ended = Promise.all([text(demo.stderr), exitOf(demo)])
    await expect.poll(() => readdirSync(notes)).toEqual(["pid"])
    demo.kill("SIGINT")
    expect(await ended).toEqual(["The demo was interrupted.\n", 130])
    expect(readdirSync(temp)).toEqual([])
    const serverPid = Number(readFileSync(join(notes, "pid"), "utf8"))
    expect(() => process.kill(serverPid, 0)).toThrow("ESRCH")
  })
})
