import { MAX_REASON_CHARS } from "@berth/protocol/bridge-limits"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId, SessionId } from "@berth/protocol/ids"
import type { PromptState } from "@berth/protocol/session"
import type { Transaction } from "kysely"
import type { EventLog } from "../events/log.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { Database } from "../store/database.ts"
import { interruptedInARow, MAX_CONTINUED } from "./interruptions.ts"
import { insertPrompt, isPending, sessionOf } from "./rows.ts"

export interface TransitionsParts {
  readonly log: Pick<EventLog, "append">
  readonly clock: Pick<Clock, "now">
}

export interface Move {
  readonly state: Exclude<PromptState, "queued">
  readonly reason?: string | undefined
  readonly at: string
}

/** The transitions of prompts from one state to the next, each in a transaction with the event that tells it. */
export class Transitions {
  readonly #log: TransitionsParts["log"]
  readonly #clock: TransitionsParts["clock"]

  constructor({ log, clock }: TransitionsParts) {
    this.#log = log
    this.#clock = clock
  }

  /** Appends events of the server's own to a session. */
  append(
    trx: Transaction<Database>,
    session: SessionId,
    bodies: readonly EventBody[],
  ): Promise<void> {
    const at = this.#now()
    return this.#log.append(
      trx,
      bodies.map((body) => ({ session, at, body })),
    )
  }

  /** Applies a state that a sandbox reports. */
  async move(trx: Transaction<Database>, prompt: PromptId, move: Move): Promise<void> {
    if (move.state !== "running") return await this.end(trx, prompt, move, { isConfirmed: true })
    const row = await trx
      .updateTable("prompts")
      .set({ state: move.state, started_at_ms: Date.parse(move.at) })
      .where("id", "=", prompt)
      .where("state", "=", "queued")
      .returning("session")
      .executeTakeFirst()
    if (row !== undefined) await this.#tell(trx, row.session, prompt, move)
  }

  /** Ends a prompt, unless it has ended. `isConfirmed`: it does not run any more. */
  async end(
    trx: Transaction<Database>,
    prompt: PromptId,
    { state: said, reason, at = this.#now() }: Ending,
    { isConfirmed }: { readonly isConfirmed: boolean },
  ): Promise<void> {
    const before = await trx
      .selectFrom("prompts")
      .select(["session", "state", "stop_requested", "stop_overdue"])
      .where("id", "=", prompt)
      .executeTakeFirstOrThrow()
    if (isConfirmed && before.stop_overdue === 1)
      await trx.updateTable("prompts").set({ stop_overdue: 0 }).where("id", "=", prompt).execute()
    if (!isPending(before.state)) return
    // A prompt whose processes were ended from outside for its stop fails by that alone.
    const state = before.stop_overdue === 1 && BROKEN.has(said) ? "stopped" : said
    await trx
      .updateTable("prompts")
      .set({ state, reason: clip(reason) ?? null, ended_at_ms: Date.parse(at) })
      .where("id", "=", prompt)
      .execute()
    await trx.deleteFrom("attachments").where("prompt", "=", prompt).execute()
    await this.#tell(trx, before.session, prompt, { state, reason, at })
    if (state === "interrupted" && before.stop_requested === 0)
      await this.#continue(trx, before.session, prompt, clip(reason) ?? UNKNOWN_REASON)
  }

  /** Asks prompts to stop. Those that have no sandbox end. */
  async requestStop(trx: Transaction<Database>, prompts: readonly PromptId[]): Promise<void> {
    for (const prompt of prompts) {
      const { sandbox } = await trx
        .updateTable("prompts")
        .set({ stop_requested: 1 })
        .where("id", "=", prompt)
        .returning("sandbox")
        .executeTakeFirstOrThrow()
      if (sandbox === null) await this.move(trx, prompt, { state: "stopped", at: this.#now() })
    }
  }

  async closeSession(trx: Transaction<Database>, session: SessionId): Promise<void> {
    const { pending } = await sessionOf(trx, session)
    await trx.updateTable("sessions").set({ state: "closed" }).where("id", "=", session).execute()
    await this.requestStop(trx, pending)
  }

  #tell(
    trx: Transaction<Database>,
    session: SessionId,
    prompt: PromptId,
    { state, reason, at }: Move,
  ): Promise<void> {
    const told = clip(reason)
    const body = {
      type: "prompt.state",
      prompt,
      state,
      ...(told !== undefined && { reason: told }),
    } as const
    return this.#log.append(trx, [{ session, at, body }])
  }

  /**
   * Continues an interrupted prompt with a new one, where the session is to. Nothing is run again: the agent is told to
   * look at what it has done, and to go on.
   */
  async #continue(
    trx: Transaction<Database>,
    id: SessionId,
    prompt: PromptId,
    reason: string,
  ): Promise<void> {
    const session = await sessionOf(trx, id)
    if (session.onInterrupt !== "continue" || session.state === "closed") return
    if ((await interruptedInARow(trx, prompt)) > MAX_CONTINUED) {
      const message = `it was interrupted ${MAX_CONTINUED + 1} times in a row, and waits for a new prompt`
      return await this.append(trx, id, [{ type: "warning", prompt, message }])
    }
    const text = `You were interrupted: ${reason}. Look at what you have done already, then go on where you were.`
    const facts = { atMs: this.#clock.now(), continues: prompt }
    const inserted = await insertPrompt(trx, session, { text, attachments: [] }, facts)
    const { id: next } = inserted.prompt
    await this.append(trx, id, [{ type: "prompt.state", prompt: next, state: "queued" }])
  }

  #now(): string {
    return new Date(this.#clock.now()).toISOString()
  }
}

/** The state in which a prompt ends; without a time, it ends now. */
export type Ending = Omit<Move, "at"> & Partial<Pick<Move, "at">>

const UNKNOWN_REASON = "for a reason that is not known"

const BROKEN: ReadonlySet<PromptState> = new Set(["failed", "interrupted"])

const clip = (reason: string | undefined): string | undefined => reason?.slice(0, MAX_REASON_CHARS)
