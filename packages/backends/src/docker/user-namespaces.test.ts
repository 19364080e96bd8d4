import { chown, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Slug } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest"
import { POLL } from "../testing/sandboxes.ts"
import { cacheVolume } from "./engine/names.ts"
import { askEngine, type DockerHarness } from "./testing/harness.ts"
import { specFor } from "./testing/spec.ts"
import { openHarnessWithUserNamespaces, ROOT_ID } from "./testing/with-user-namespaces.ts"

const AGENT_ID = ROOT_ID + 1_000

requires("root", "docker", "userNamespaces").describe("an engine with user namespaces", () => {
  let harness: DockerHarness
  let directory: string
  let empty: Record<string, number>
  beforeAll(async () => {
    harness = await openHarnessWithUserNamespaces()
    empty = await harness.census()
  }, 120_000)
  afterAll(() => harness?.close(), 60_000)
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "berth-ids-"))
  })
  afterEach(async () => {
    const { backend } = harness
    for (const { identity } of await backend.list()) await backend.remove(identity.sandbox)
    await rm(directory, { recursive: true })
    expect(await harness.census()).toEqual(empty)
  })

  const boot = async (command: readonly string[], config = {}, more = {}) => {
    const spec = { ...specFor(harness, { ...config, command: [...command] }), ...more }
    await harness.backend.create(spec)
    await harness.backend.start(spec.identity.sandbox)
    return spec.identity.sandbox
  }
  const run = async (script: string, config = {}, more = {}) => {
    const sandbox = await boot(["/bin/sh", "-ec", script], config, more)
    const state = async () => (await harness.backend.inspect(sandbox))?.state
    await expect.poll(state, POLL).toBe("exited")
    return harness.backend.logs(sandbox)
  }
  const owned = async (path: string, owner: number) => {
    await mkdir(path)
    await chown(path, owner, owner)
    return path
  }

  it("maps root inside to an unused id, and its description does not warn of the host's root", async () => {
    const { notes } = await harness.backend.describe()
    expect(notes.join("\n")).not.toContain("host's root")
    expect(notes.join("\n")).toContain("one range of ids")
    const sandbox = await boot(["/bin/sh", "-c", "echo up; exec sleep 1000"])
    const { body } = await askEngine(harness.engine, "GET", `/containers/berth-${sandbox}/json`)
    const { Pid } = (body as { State: { Pid: number } }).State
    expect((await stat(`/proc/${Pid}`)).uid).toBe(ROOT_ID)
    // A first process hears no signal before it listens.
    await expect.poll(() => harness.backend.logs(sandbox)).toContain("up")
    await harness.backend.stop(sandbox, { graceMs: 5_000 })
    expect(await harness.backend.inspect(sandbox)).toMatchObject({ exit: { code: 143 } })
  })

  it("gives a sandbox terminals and shared memory of its own", async () => {
    const script = `
      exec perl -MPOSIX -MFcntl -e '
        setgid(1000); setuid(1000);
        sysopen(my $ours, "/dev/ptmx", O_RDWR | O_NOCTTY) or die "terminal: $!";
        my $zero = pack("i", 0);
        ioctl($ours, 0x40045431, $zero) or die "unlock: $!";
        sysopen(my $its, "/dev/pts/0", O_RDWR | O_NOCTTY) or die "its other end: $!";
        open(my $shared, ">", "/dev/shm/own") or die "shared memory: $!";
        print "all\\n";'`
    expect(await run(script)).toBe("all\n")
  })

  it("gives the users inside their files: the shared directory, layers, the home and caches", async () => {
    const sharedDirectory = await owned(join(directory, "shared"), ROOT_ID)
    for (const name of ["low", "top", "work"]) await owned(join(directory, name), AGENT_ID)
    await writeFile(join(directory, "low/file"), "of a layer\n")
    const stack = Slug.parse("files")
    const paths = { base: directory, lower: ["low"], upper: "top", work: "work" }
    const overlays = [{ stack, ...paths, options: ["index=off"] }]
    const workspace = Slug.parse("test")
    const [cache] = await harness.backend.ensureCaches(workspace, ["npm"])
    expect(cache).toMatchObject({ ready: true })
    const mounts = [
      { kind: "shared", target: "/run/berth" },
      { kind: "stack", stack, target: "/workspace" },
      { kind: "cache", cache: "npm", target: "/cache" },
    ]
    const asAgent = "echo mine | tee /workspace/new /home/agent/new > /cache/new"
    const script = `
      cat /workspace/file
      echo root > /run/berth/said
      perl -MPOSIX -e 'setgid(1000); setuid(1000); exec "sh", "-ec", shift' '${asAgent}'
      stat -c '%n %u' /run/berth/said /workspace/new /home/agent/new /cache/new`
    expect((await run(script, { mounts }, { sharedDirectory, overlays })).split("\n")).toEqual([
      "of a layer",
      "/run/berth/said 0",
      ...["/workspace/new 1000", "/home/agent/new 1000", "/cache/new 1000", ""],
    ])
    expect(await readFile(join(directory, "top/new"), "utf8")).toBe("mine\n")
    expect((await stat(join(directory, "top/new"))).uid).toBe(AGENT_ID)
    for (const { identity } of await harness.backend.list()) {
      await harness.backend.remove(identity.sandbox)
    }
    const volume = cacheVolume(harness.installation, workspace, "npm")
    await askEngine(harness.engine, "DELETE", `/volumes/${volume}`)
  })
})
