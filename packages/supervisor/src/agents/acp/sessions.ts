import { join } from "node:path"
import type { SessionId } from "@berth/protocol/ids"
import { objectIn, textIn } from "../read.ts"
import type { Life } from "./process.ts"
import type { UserFiles } from "./user-files.ts"

/**
 * The file that maps sessions to conversations, below the user's home. Agents keep the conversations there too, so both
 * move to another sandbox together.
 */
const PLACE = ".local/share/berth/acp-sessions.json"

export interface Found {
  /** The agent's own id of the conversation. */
  readonly id: string
  /** Whether the session had a conversation that the agent does not remember. */
  readonly isForgotten: boolean
}

export interface FindOptions {
  readonly life: Life
  readonly cwd: string
  readonly mode: string | undefined
  readonly meta: Readonly<Record<string, unknown>> | undefined
}

/** Maps each session to the agent's conversation for it. */
export class Sessions {
  readonly #files: UserFiles
  readonly #path: string
  /** The conversations that are open in a process of the agent (`life` is its number). */
  readonly #known = new Map<SessionId, { readonly life: number; readonly id: string }>()
  /** Assigned before the first await, so that concurrent callers share one attempt. */
  readonly #finding = new Map<SessionId, Promise<Found>>()
  #kept: Promise<Map<string, string>> | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(files: UserFiles, home: string) {
    this.#files = files
    this.#path = join(home, PLACE)
  }

  /**
   * Returns the session's conversation. Resumes it if the agent's current process does not have it open, or opens a new
   * one.
   */
  find(session: SessionId, options: FindOptions): Promise<Found> {
    const finding =
      this.#finding.get(session) ??
      this.#find(session, options).finally(() => this.#finding.delete(session))
    this.#finding.set(session, finding)
    return finding
  }

  async #find(session: SessionId, options: FindOptions): Promise<Found> {
    const { life } = options
    const known = this.#known.get(session)
    if (known?.life === life.number) return { id: known.id, isForgotten: false }
    this.#kept ??= this.#read()
    const kept = (await this.#kept).get(session)
    const taken = kept === undefined ? undefined : await takeUp(kept, options)
    const id = taken ?? (await create(options))
    if (options.mode !== undefined)
      await life.connection.agent.request("session/set_mode", {
        sessionId: id,
        modeId: options.mode,
      })
    if (id !== kept) await this.#keep(session, id)
    this.#known.set(session, { life: life.number, id })
    return { id, isForgotten: kept !== undefined && taken === undefined }
  }

  /** Called after a prompt failed: the next `find` asks the agent again. */
  forget(session: SessionId): void {
    this.#known.delete(session)
  }

  async #read(): Promise<Map<string, string>> {
    try {
      const value = objectIn(JSON.parse(await this.#files.read(this.#path)))
      return new Map(
        Object.entries(value).flatMap(([session, id]) =>
          typeof id === "string" ? [[session, id] as const] : [],
        ),
      )
    } catch {
      // The file does not exist, or the user damaged it. Conversations begin anew.
      return new Map()
    }
  }

  /** Saves the map. Writes run one after another, so that the last one contains every entry. */
  async #keep(session: SessionId, id: string): Promise<void> {
    const kept = await this.#kept
    kept?.set(session, id)
    const written = this.#writing.then(() =>
      this.#files.replace(this.#path, JSON.stringify(Object.fromEntries(kept ?? []))),
    )
    this.#writing = written.catch(() => {})
    await written
  }
}

const create = async (options: FindOptions): Promise<string> => {
  const made = await options.life.connection.agent.request("session/new", settingOf(options))
  return textIn(objectIn(made).sessionId) ?? ""
}

const settingOf = ({ cwd, meta }: FindOptions) => ({
  cwd,
  mcpServers: [],
  ...(meta !== undefined && { _meta: { ...meta } }),
})

/** Resumes a conversation. Returns undefined if the agent cannot, or does not remember it. */
const takeUp = async (sessionId: string, options: FindOptions): Promise<string | undefined> => {
  const { life } = options
  const { takesUp } = life.abilities
  if (takesUp === undefined) return undefined
  try {
    await life.connection.agent.request(takesUp, { sessionId, ...settingOf(options) })
    return sessionId
  } catch (thrown) {
    if (life.connection.over.aborted) throw thrown
    return undefined
  }
}
