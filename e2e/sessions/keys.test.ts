import { execFileSync } from "node:child_process"
import { createHash, randomBytes } from "node:crypto"
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import type { SandboxId } from "@berth/protocol/ids"
import type { WorkspaceSpecInput } from "@berth/protocol/workspace"
import { modelProgram } from "@berth/testing/model/program"
import { sampled } from "@berth/testing/sampled"
import { afterAll, beforeAll, expect, it } from "vitest"
import { BACKENDS, describeOn } from "../backends.ts"
import { makeRepo } from "../boot/stage.ts"
import { makeSmallDisk, type SmallDisk } from "../disk/small-disk.ts"
import { startEngine } from "../docker/engine.ts"
import { openServer } from "../sandboxes/server.ts"
import { AGENTS, type AgentName, MAKE_A_FILE, MODEL_PORT, SAW_A_BIRD } from "./agents.ts"
import { DEADLINE_MS, promptToEnd } from "./stage.ts"

/** The folder of the model's notes, with the key that it was asked with, is in memory. */
const ASKED = "/dev/shm/asked"

const CANARY = `sk-canary-${randomBytes(24).toString("hex")}`

/** The key, and forms in which programs write bytes down, wherever in them it stands. */
const FORMS: Readonly<Record<string, string>> = {
  plain: CANARY,
  hex: Buffer.from(CANARY).toString("hex"),
  utf16: Buffer.from(CANARY, "utf16le").toString("latin1"),
  ...Object.fromEntries(
    [0, 1, 2].map((shift) => {
      const whole = Buffer.concat([Buffer.alloc(shift), Buffer.from(CANARY)]).toString("base64")
      // Characters at both ends depend on the bytes beside the key.
      return [`base64 at ${shift}`, whole.slice(4, -4)]
    }),
  ),
}

const formsIn = (bytes: Buffer): string[] =>
  Object.entries(FORMS).flatMap(([name, form]) => (bytes.includes(form, 0, "latin1") ? [name] : []))

const CHUNK_BYTES = 16 * 1024 * 1024
const OVERLAP_BYTES = 1024

const EMPTY = Buffer.alloc(CHUNK_BYTES)

/** Reads a whole disk in pieces that overlap. Most of it was never written to. */
const formsOnDisk = (image: string): string[] => {
  const file = openSync(image, "r")
  const chunk = Buffer.alloc(CHUNK_BYTES)
  const found = new Set<string>()
  try {
    for (let at = 0; ; at += CHUNK_BYTES - OVERLAP_BYTES) {
      const bytes = readSync(file, chunk, 0, CHUNK_BYTES, at)
      if (!chunk.equals(EMPTY))
        for (const form of formsIn(chunk.subarray(0, bytes))) found.add(`${form} near ${at}`)
      if (bytes < CHUNK_BYTES) return [...found]
    }
  } finally {
    closeSync(file)
  }
}

const processes = (): string[] => readdirSync("/proc").filter((name) => /^\d+$/.test(name))

/** A file of a process, or nothing of one that has ended. */
const readOf = (pid: string, file: string): Buffer => {
  try {
    return readFileSync(`/proc/${pid}/${file}`)
  } catch {
    return Buffer.alloc(0)
  }
}

const commandLines = (): Buffer =>
  Buffer.concat(processes().flatMap((pid) => [readOf(pid, "cmdline"), readOf(pid, "comm")]))

/** Processes of a sandbox that have the key in their environment: the agent, and its children. */
const holdersIn = (names: readonly string[]): string[] =>
  processes().filter(
    (pid) =>
      names.some((name) => readOf(pid, "cgroup").includes(name)) &&
      readOf(pid, "environ").includes(CANARY),
  )

/** Forms of the key in the files of a directory and of all below it. */
const formsInFiles = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .flatMap((path) => formsIn(readIfThere(path)).map((form) => `${form} in ${path}`))

/** An empty buffer for a file that is gone: the engine removes files of a state while they are listed. */
const readIfThere = (path: string): Buffer => {
  try {
    return readFileSync(path)
  } catch {
    return Buffer.alloc(0)
  }
}

/** The core dumps of this host, in the directory that it names and in those of the usual handlers. */
const coresOfHost = (): string[] => {
  const pattern = readFileSync("/proc/sys/kernel/core_pattern", "utf8").trim()
  const places = ["/var/lib/systemd/coredump", "/var/crash", "/var/lib/apport/coredump"]
  if (pattern.startsWith("/")) places.push(dirname(pattern))
  return places.flatMap((place) =>
    existsSync(place) ? readdirSync(place).map((name) => join(place, name)) : [],
  )
}

/** Ends a process with a core dump, unless it has ended with its parent. */
const endWithCore = (pid: number, signal: "SIGABRT" | "SIGSEGV"): void => {
  try {
    process.kill(pid, signal)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ESRCH") throw thrown
  }
}

const CORES_INSIDE =
  "find / -xdev -type f \\( -name core -o -name 'core.[0-9]*' \\) -size +0 2>/dev/null; find /tmp /run /dev/shm -type f \\( -name core -o -name 'core.[0-9]*' \\) 2>/dev/null; :"

const AGENT_NAMES = ["opencode", "claude", "codex"] as const satisfies readonly AgentName[]

const CASES = sampled(
  "keys of agents that are searched for on a whole disk",
  BACKENDS.flatMap((backend) => AGENT_NAMES.map((name) => ({ backend, name }))),
  1,
)

for (const { backend, name } of CASES)
  describeOn([backend], `the key of a real ${name}`, () => {
    let disk: SmallDisk
    let outside: string
    let server: Awaited<ReturnType<typeof openServer>>
    let engine: Awaited<ReturnType<typeof startEngine>> | undefined
    beforeAll(async () => {
      disk = makeSmallDisk()
      outside = mkdtempSync(join(tmpdir(), "berth-keys-e2e-"))
      const keysFile = join(outside, "keys.env")
      const keys = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SCRIPTED_KEY"]
      const lines = keys.map((key) => `${key}=${CANARY}\n`).join("")
      writeFileSync(keysFile, lines, { mode: 0o600 })
      if (backend === "docker") {
        const data = join(disk.directory, "engine")
        mkdirSync(data)
        engine = await startEngine({ flags: ["--data-root", data] })
      }
      const flags = ["--keys-file", keysFile, "--log-level", "debug", ...(engine?.flags ?? [])]
      server = await openServer(flags, disk.directory)
    }, DEADLINE_MS)
    afterAll(async () => {
      await server?.close()
      await engine?.stop()
      disk?.remove()
      rmSync(outside, { recursive: true, force: true })
    }, DEADLINE_MS)

    const workspace = async (): Promise<WorkspaceSpecInput> => {
      const { agent, environment, script } = AGENTS[name]
      const app = makeRepo(join(outside, "app"), { README: "hello\n" })
      const model = makeRepo(join(outside, "model"), {
        "model-server.mjs": await modelProgram(),
        "script.json": JSON.stringify(script),
      })
      const files = ["model-server.mjs", "script.json"].map((file) => `/workspace/model/${file}`)
      return {
        slug: "keyed",
        network: { kind: "none" },
        agent,
        environment,
        repos: [
          { url: app, directory: "app" },
          { url: model, directory: "model" },
        ],
        sidecars: [
          {
            name: "model",
            command: ["/opt/berth/bin/node", ...files, ASKED],
            port: MODEL_PORT,
            afterHooks: true,
            required: true,
          },
        ],
      }
    }

    /** The words in the cgroups of a sandbox's processes. */
    const namesOf = async (sandbox: SandboxId): Promise<string[]> => {
      const containers = (await engine?.containers()) ?? []
      const own = containers.filter(({ Labels }) => Object.values(Labels).includes(sandbox))
      return engine === undefined ? [sandbox] : own.map(({ Id }) => Id)
    }

    /** Forms of the key in the engine's answers about its containers and volumes, and in its files of running ones. */
    const formsInEngine = async (): Promise<string[]> => {
      if (engine === undefined) return []
      const { containers: list, inspect, volumes, socket } = engine
      const containers = await list()
      expect(containers).not.toEqual([])
      const inspected = await Promise.all(containers.map(({ Id }) => inspect(Id)))
      const told = JSON.stringify([containers, inspected, await volumes()])
      return [...formsIn(Buffer.from(told)), ...formsInFiles(join(dirname(socket), "exec"))]
    }

    it(
      "is used, and is in no command line, log, answer, core dump or byte of the data directory's disk after a prompt, a fork, a crash of the agent, an export and a stop",
      async () => {
        const { sandboxes, sessions, workspaces } = server.client()
        const box = await sandboxes.create({ workspace: await workspace() })
        await box.ready()
        const session = await sessions.create({ workspace: "keyed" })
        const events = await promptToEnd(session, MAKE_A_FILE)
        expect(events.at(-1)?.body).toMatchObject({ state: "succeeded" })
        // The model was asked with this very key, of which no copy is to be written down by this look.
        const look = `/opt/berth/bin/node -e '
          const [line] = require("fs").readFileSync("${ASKED}/asked.jsonl", "utf8").split("\\n")
          console.log(require("crypto").createHash("sha256").update(JSON.parse(line).key).digest("hex"))'`
        const digest = createHash("sha256").update(CANARY).digest("hex")
        expect((await box.commands.run(look)).stdout.trim()).toBe(digest)
        expect(formsIn(commandLines())).toEqual([])
        expect(await formsInEngine()).toEqual([])

        const fork = await box.fork("keyed-copy")
        await fork.ready()

        const coresBefore = coresOfHost()
        const holders = holdersIn(await namesOf(box.id))
        expect(holders).not.toEqual([])
        // With this limit the kernel writes no core file, and starts no handler of the host.
        for (const pid of holders)
          expect(readOf(pid, "limits").toString()).toMatch(/^Max core file size +1 +1 /m)
        for (const [place, pid] of holders.entries())
          endWithCore(Number(pid), place % 2 === 0 ? "SIGABRT" : "SIGSEGV")
        const after = await promptToEnd(session, SAW_A_BIRD)
        expect(after.at(-1)?.body.type).toBe("prompt.state")
        expect(formsIn(commandLines())).toEqual([])
        expect((await box.commands.run(CORES_INSIDE)).stdout).toBe("")
        expect(coresOfHost()).toEqual(coresBefore)
        expect(await formsInEngine()).toEqual([])

        const told = [
          ...[await sandboxes.list(), await box.why(), await box.boot(), await session.messages()],
          ...[events, after, await workspaces.get("keyed")],
        ]
        expect(formsIn(Buffer.from(JSON.stringify(told)))).toEqual([])
        await new Response(await workspaces.exportFiles("keyed")).arrayBuffer()
        for (const each of [box, fork]) await each.stop({ force: true })
        await server.kill()
        expect(formsIn(Buffer.from(server.log.join("\n")))).toEqual([])
        execFileSync("sync", ["--file-system", disk.directory])
        expect(formsOnDisk(disk.image)).toEqual([])
        // The search is proven by a key that is on the disk.
        writeFileSync(
          join(disk.directory, "planted"),
          Buffer.from(`xx${CANARY}`).toString("base64"),
        )
        execFileSync("sync", ["--file-system", disk.directory])
        expect(formsOnDisk(disk.image)).not.toEqual([])
      },
      DEADLINE_MS,
    )
  })
