import { join } from "node:path"
import type { SessionId } from "@berth/protocol/ids"
import { objectIn, textIn } from "../read.ts"
import type { Life } from "./process.ts"
import type { UserFiles } from "./user-files.ts"

/** Beside what agents keep of their conversations: both go on together in another sandbox. */
const PLACE = ".local/share/berth/acp-sessions.json"

export interface Found {
  /** The agent's own name for it. */
  readonly id: string
  /** Whether there was one before that the agent does not remember. */
  readonly isForgotten: boolean
}

export interface FindOptions {
  readonly life: Life
  readonly cwd: string
  readonly mode: string | undefined
  readonly meta: Readonly<Record<string, unknown>> | undefined
}

/** Which conversation of the agent belongs to which session. */
export class Sessions {
  readonly #files: UserFiles
  readonly #path: string
  /** Of this life of the agent, by the session. */
  readonly #known = new Map<SessionId, { readonly life: number; readonly id: string }>()
  /** Assigned before the first await, so that those who ask at the same time share one attempt. */
  readonly #finding = new Map<SessionId, Promise<Found>>()
  #kept: Promise<Map<string, string>> | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(files: UserFiles, home: string) {
    this.#files = files
    this.#path = join(home, PLACE)
  }

  /** The one there is, taken up where this life of the agent does not have it; or a new one. */
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
      await life.link.agent.request("session/set_mode", { sessionId: id, modeId: options.mode })
    if (id !== kept) await this.#keep(session, id)
    this.#known.set(session, { life: life.number, id })
    return { id, isForgotten: kept !== undefined && taken === undefined }
  }

  /** After a failure: whoever asks next looks anew. */
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
      // There is none yet, or it is the user's doing: then conversations begin anew.
      return new Map()
    }
  }

  /** One after another, so that the last one has them all. */
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
  const made = await options.life.link.agent.request("session/new", settingOf(options))
  return textIn(objectIn(made).sessionId) ?? ""
}

const settingOf = ({ cwd, meta }: FindOptions) => ({
  cwd,
  mcpServers: [],
  ...(meta !== undefined && { _meta: { ...meta } }),
})

/** Undefined: it cannot, or does not remember. */
const takeUp = async (sessionId: string, options: FindOptions): Promise<string | undefined> => {
  const { life } = options
  const { takesUp } = life.abilities
  if (takesUp === undefined) return undefined
  try {
    await life.link.agent.request(takesUp, { sessionId, ...settingOf(options) })
    return sessionId
  } catch (thrown) {
    if (life.link.over.aborted) throw thrown
    return undefined
  }
}
