import { constants } from "node:fs"
import { mkdir, open } from "node:fs/promises"
import { dirname, join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { ProcessSpec } from "../../processes/spec.ts"
import type { SupervisedProcess } from "../../processes/supervised.ts"
import type { AgentParts } from "../parts.ts"
import { Client } from "./client.ts"
import { Listening } from "./listening.ts"

/** What it must not do by itself: fetch a newer self, a list of models, language servers. */
const OFFLINE = {
  OPENCODE_DISABLE_AUTOUPDATE: "1",
  OPENCODE_DISABLE_MODELS_FETCH: "1",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
}

/** One life of the server: what was said to an earlier one, it does not know. */
export interface Life {
  readonly number: number
  readonly port: number
  readonly client: Client
}

/** `opencode serve`, kept running. */
export class Server {
  readonly #parts: AgentParts
  readonly #listening = new Listening()
  #process: SupervisedProcess | undefined
  #password = ""
  #emptyDirectory: string | undefined
  #launching: Promise<SupervisedProcess> | undefined

  constructor(parts: AgentParts) {
    this.#parts = parts
  }

  /** The life that answers now; starts one where none is kept running, and waits for it. */
  async life(signal: AbortSignal): Promise<Life> {
    const process = await this.#kept()
    await process.ready(signal)
    const { port = 0, lives } = this.#listening
    return { number: lives, port, client: new Client({ port, password: this.#password }) }
  }

  /** Undefined while it runs, or starts: whoever asks for its life waits for it. */
  trouble(): string | undefined {
    if (this.#launching !== undefined) return undefined
    const { phase, reason } = this.#process?.status() ?? { phase: "idle", reason: "" }
    if (phase === "idle") return "OpenCode is not started yet"
    if (phase === "stopping" || phase === "stopped") return "OpenCode is being stopped"
    return phase === "given-up" ? `OpenCode is given up: ${reason}` : undefined
  }

  /** Ends that life with all that came from it, at once; another starts. One that has ended needs nothing. */
  async replace(life: Life): Promise<void> {
    const process = this.#process
    if (process?.status().phase !== "ready" || life.number !== this.#listening.lives) return
    const stopped = process.stop({ graceMs: 0 })
    void this.#launchAfter(stopped)
    await stopped
  }

  get pid(): number | undefined {
    return this.#process?.status().pid
  }

  /** One that was given up gets another chance with each new prompt. */
  #kept(): Promise<SupervisedProcess> | SupervisedProcess {
    if (this.#launching !== undefined) return this.#launching
    const process = this.#process
    if (process === undefined) return this.#launchAfter(Promise.resolve())
    return process.status().phase === "given-up" ? this.#launchAfter(process.stop()) : process
  }

  /** Assigned before the first await, so that those who ask at the same time share one start. */
  #launchAfter(before: Promise<unknown>): Promise<SupervisedProcess> {
    this.#launching = before
      .then(() => this.#launch())
      .finally(() => {
        this.#launching = undefined
      })
    // Whoever asks for a life hears of it.
    this.#launching.catch(() => {})
    return this.#launching
  }

  async #launch(): Promise<SupervisedProcess> {
    this.#process = this.#parts.processes.start(await this.#spec())
    return this.#process
  }

  async #spec(): Promise<ProcessSpec> {
    const { places, user, environment } = this.#parts
    this.#password = await randomText()
    this.#emptyDirectory ??= await makeEmptyDirectory(dirname(places.logs))
    return {
      name: "opencode",
      command: [
        ...[join(places.toolbox, "bin/opencode"), "serve"],
        ...["--port", "0", "--hostname", "127.0.0.1"],
      ] as [string, ...string[]],
      // In the environment, which only its own user can read: the command line is for everyone to see.
      env: {
        ...{ ...OFFLINE, ...environment, OPENCODE_SERVER_PASSWORD: this.#password },
        // Where its files are put, and where its conversations stay with the workspace's files.
        XDG_CONFIG_HOME: join(places.home, ".config"),
        XDG_DATA_HOME: join(places.home, ".local/share"),
      },
      cwd: this.#emptyDirectory,
      user,
      origin: "agent",
      readiness: this.#listening,
      log: { path: join(places.logs, "opencode.log") },
    }
  }
}

/** For everyone to enter, and for nobody to write. */
const EMPTY_MODE = 0o555

/**
 * It is outside of every repo, and stays empty. It lies beside the logs, where only root may write: in a place of
 * the user's, a name could become a link before its mode is set. It may be there from an earlier start.
 */
const makeEmptyDirectory = async (parent: string): Promise<string> => {
  const path = join(parent, "berth-opencode")
  try {
    await mkdir(path, { mode: EMPTY_MODE }).catch(unlessThere)
    const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants
    const directory = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    try {
      // Whatever the umask took from it.
      await directory.chmod(EMPTY_MODE)
    } finally {
      await directory.close()
    }
    return path
  } catch (cause) {
    throw new BerthError("process.start_failed", `no directory can be made at ${path}`, {
      details: { path },
      cause,
    })
  }
}

const unlessThere = (thrown: NodeJS.ErrnoException): void => {
  if (thrown.code !== "EEXIST") throw thrown
}

/** Cryptography is loaded when it is needed: the supervisor's own start is on every boot's path. */
const randomText = async (): Promise<string> => {
  const { randomBytes } = await import("node:crypto")
  return randomBytes(32).toString("base64url")
}
