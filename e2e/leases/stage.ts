import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { run } from "@berth/cli/run"
import { userOf } from "@berth/protocol/lease"
import { ConfigHash } from "@berth/protocol/sandbox"
import type { CreateOptions } from "@berth/sdk/create"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { openStore } from "@berth/server/store/open"
import { onDataDir, openServer } from "../sandboxes/server.ts"

/** Opens a real server that can be started again with other idle times. */
export const setStage = async (config: string, flags: readonly string[] = []) => {
  // Commands run in this process, and are not to see its own variables of Berth.
  for (const name of Object.keys(process.env))
    if (name.startsWith("BERTH_")) delete process.env[name]
  const directory = mkdtempSync(join(tmpdir(), "berth-leases-"))
  const file = join(directory, "berth.yaml")
  writeFileSync(file, config)
  const server = await openServer(["--config", file, ...flags])

  const create = (
    name: string,
    environment: Readonly<Record<string, string>> = {},
    options: CreateOptions = {},
  ): Promise<Sandbox> => {
    const workspace = { slug: name, environment, network: { kind: "none" as const } }
    return server.client().sandboxes.create({ workspace }, options)
  }

  const runHere = async (args: readonly string[], isAtScreen: boolean) => {
    let stdout = ""
    let stderr = ""
    const status = await run(onDataDir(server.dataDir, args), {
      out: (text) => {
        stdout += text
      },
      err: (text) => {
        stderr += text
      },
      hasColors: () => false,
      isScreen: () => isAtScreen,
    })
    return { stdout, stderr, status }
  }

  return {
    ...server,
    create,
    make: async (name: string): Promise<Sandbox> => {
      const sandbox = await create(name)
      await sandbox.ready()
      return sandbox
    },
    /** Runs a command in this process, which takes a fraction of a process's start. */
    told: (...args: readonly string[]) => runHere(args, false),
    /** Runs a command in this process, with the output for a person at a screen. */
    shown: (...args: readonly string[]) => runHere(args, true),
    /** Starts the server again, unless it has this configuration. */
    configure: async (wanted: string) => {
      if (readFileSync(file, "utf8") === wanted) return
      writeFileSync(file, wanted)
      await server.kill()
      await server.restart()
    },
    /** The phase of a sandbox: `gone` if another one has taken its place. */
    phaseOf: async ({ id }: Pick<Sandbox, "id">) => {
      const { identity, phase } = await server.sandbox(id).get()
      return identity.sandbox === id ? phase : "gone"
    },
    /** Starts the server again with a sandbox like one of an earlier Berth: stale, though its workspace has not changed. */
    outdate: async ({ id }: Pick<Sandbox, "id">) => {
      await server.kill()
      const { db, close } = await openStore({ dataDir: server.dataDir })
      const old = ConfigHash.parse("0".repeat(64))
      await db.updateTable("sandboxes").set({ config_hash: old }).where("id", "=", id).execute()
      await close()
      await server.restart()
    },
    usersOf: async ({ id }: Pick<Sandbox, "id">): Promise<string[]> => {
      const { leases } = await server.sandbox(id).get()
      return leases.map(userOf)
    },
    close: async () => {
      const { sandboxes } = server.client()
      const ids = (await sandboxes.list()).map(({ identity }) => identity.sandbox)
      await Promise.all(ids.map((id) => sandboxes.remove(id, { force: true })))
      await server.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}
