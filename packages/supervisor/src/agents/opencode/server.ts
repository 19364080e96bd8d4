import { dirname, join } from "node:path"
import type { PromptId } from "@berth/protocol/ids"
import type { ProcessSpec } from "../../processes/spec.ts"
import type { ProcessTree } from "../../processes/tree/tree.ts"
import { makeEmptyDirectory } from "../empty-directory.ts"
import { ManagedProcess } from "../managed-process.ts"
import type { SharedLife } from "../or-interrupted.ts"
import type { AgentParts } from "../parts.ts"
import { Client } from "./client.ts"
import { Listening } from "./listening.ts"

/** Keeps OpenCode from fetching updates, a list of models and language servers. */
const OFFLINE = {
  OPENCODE_DISABLE_AUTOUPDATE: "1",
  OPENCODE_DISABLE_MODELS_FETCH: "1",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
}

/** A process of the server, from start to exit. A new one knows nothing of what an earlier one was told. */
export interface Life extends SharedLife {
  readonly number: number
  readonly port: number
  readonly client: Client
}

/** Keeps `opencode serve` running. */
export class Server {
  readonly #parts: AgentParts
  readonly #held: Readonly<Record<string, string>>
  readonly #listening = new Listening()
  readonly #process = new ManagedProcess("OpenCode", async () =>
    this.#parts.processes.start(await this.#spec()),
  )
  #password = ""
  #emptyDirectory: string | undefined
  #life: Life | undefined

  /** The variables in `held` override everything that the workspace sets. */
  constructor(parts: AgentParts, held: Readonly<Record<string, string>>) {
    this.#parts = parts
    this.#held = held
  }

  /** Returns the current process of the server. Starts one if none runs, and waits until it is ready. */
  async life(signal: AbortSignal): Promise<Life> {
    await this.#process.ready(signal)
    const { port = 0, lives: number } = this.#listening
    if (this.#life?.number === number) return this.#life
    const client = new Client({ port, password: this.#password })
    this.#life = { number, port, client, endedFor: undefined }
    return this.#life
  }

  trouble(): string | undefined {
    return this.#process.trouble()
  }

  /**
   * Ends the given process at once, because of a prompt or after a crash, and starts another. Does nothing if it has
   * ended already.
   */
  async replace(life: Life, prompt?: PromptId): Promise<void> {
    if (life.number !== this.#listening.lives || !this.#process.isReady) return
    life.endedFor = prompt
    await this.#process.replace()
  }

  lastOutput(): string {
    return this.#process.lastOutput()
  }

  get grown(): ProcessTree | undefined {
    return this.#process.grown
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  async #spec(): Promise<ProcessSpec> {
    const { places, user, environment, keys } = this.#parts
    this.#password = await randomText()
    this.#emptyDirectory ??= await makeEmptyDirectory(join(dirname(places.logs), "berth-opencode"))
    return {
      name: "opencode",
      command: [
        ...[join(places.toolbox, "bin/opencode"), "serve"],
        ...["--port", "0", "--hostname", "127.0.0.1"],
      ] as [string, ...string[]],
      // The password is passed in the environment, which only the process's own user can read. Everyone can read the
      // command line.
      env: {
        ...OFFLINE,
        ...environment,
        ...keys.environment,
        ...this.#held,
        OPENCODE_SERVER_PASSWORD: this.#password,
        // OpenCode's configuration is placed here, and its conversations stay with the workspace's files.
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

/** Loads cryptography only when it is needed: the supervisor's own start is on every boot's path. */
const randomText = async (): Promise<string> => {
  const { randomBytes } = await import("node:crypto")
  return randomBytes(32).toString("base64url")
}
