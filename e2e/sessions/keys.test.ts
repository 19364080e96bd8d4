import { execFileSync } from "node:child_process"
import { createHash, randomBytes } from "node:crypto"
import {
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { WorkspaceSpecInput } from "@berth/protocol/workspace"
import { modelProgram } from "@berth/testing/model/program"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, expect, it } from "vitest"
import { makeRepo, processesOf } from "../boot/stage.ts"
import { makeSmallDisk, type SmallDisk } from "../disk/small-disk.ts"
import { openServer } from "../sandboxes/server.ts"
import { AGENTS, MAKE_A_FILE, MODEL_PORT, SAW_A_BIRD } from "./agents.ts"
import { DEADLINE_MS, promptToEnd } from "./stage.ts"

/** In memory: the model notes the key that it was asked with. */
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

const commandLines = (): Buffer =>
  Buffer.concat(
    readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .flatMap((pid) => {
        try {
          return [readFileSync(`/proc/${pid}/cmdline`), readFileSync(`/proc/${pid}/comm`)]
        } catch {
          return []
        }
      }),
  )

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "the key of a real OpenCode",
  () => {
    let disk: SmallDisk
    let outside: string
    let server: Awaited<ReturnType<typeof openServer>>
    beforeAll(async () => {
      disk = makeSmallDisk()
      outside = mkdtempSync(join(tmpdir(), "berth-keys-e2e-"))
      const keysFile = join(outside, "keys.env")
      writeFileSync(keysFile, `SCRIPTED_KEY=${CANARY}\n`, { mode: 0o600 })
      server = await openServer(["--keys-file", keysFile, "--log-level", "debug"], disk.directory)
    }, DEADLINE_MS)
    afterAll(async () => {
      await server?.close()
      disk?.remove()
      rmSync(outside, { recursive: true, force: true })
    }, DEADLINE_MS)

    const workspace = async (): Promise<WorkspaceSpecInput> => {
      const { agent, environment, script } = AGENTS.opencode
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

    it(
      "is used, and is in no command line, log, answer or byte of the data directory's disk after a prompt, a fork, a crash of the agent, an export and a stop",
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

        const fork = await box.fork("keyed-copy")
        await fork.ready()

        const agents = processesOf(box.id).filter(({ command }) => command.includes("opencode"))
        expect(agents).not.toEqual([])
        for (const { pid } of agents) process.kill(pid, "SIGABRT")
        const after = await promptToEnd(session, SAW_A_BIRD)
        expect(after.at(-1)?.body.type).toBe("prompt.state")
        expect(formsIn(commandLines())).toEqual([])

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
        // A key that stands there would have been found.
        writeFileSync(
          join(disk.directory, "planted"),
          Buffer.from(`xx${CANARY}`).toString("base64"),
        )
        execFileSync("sync", ["--file-system", disk.directory])
        expect(formsOnDisk(disk.image)).not.toEqual([])
      },
      DEADLINE_MS,
    )
  },
)
