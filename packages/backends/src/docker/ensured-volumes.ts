import { abortable } from "@berth/host/abortable"
import { timeoutSignal } from "@berth/host/timeout-signal"
import { DEADLINES_MS } from "../backend.ts"
import type { Volume, VolumeAnswer } from "./engine/volumes.ts"

/** A volume that was ensured this recently need not be looked up again. */
const FRESH_MS = 2_000

/** Ensures volumes with one request for all concurrent callers, and remembers for a moment which there are. */
export class EnsuredVolumes {
  readonly #ensure: (volume: Volume, signal: AbortSignal) => Promise<VolumeAnswer>
  readonly #nowMs: () => number
  /** The requests that the engine has not answered yet, by the volume's name. */
  readonly #asked = new Map<string, Promise<VolumeAnswer>>()
  readonly #ensuredAtMs = new Map<string, number>()

  constructor(
    ensure: (volume: Volume, signal: AbortSignal) => Promise<VolumeAnswer>,
    nowMs: () => number,
  ) {
    this.#ensure = ensure
    this.#nowMs = nowMs
  }

  async ensure(volume: Volume, signal: AbortSignal): Promise<VolumeAnswer> {
    const { name } = volume
    const shared = this.#asked.get(name) ?? this.#ask(volume)
    const found = await abortable(shared, signal)
    this.#ensuredAtMs.set(name, this.#nowMs())
    return found
  }

  /** Whether a volume of this name was there a moment ago. */
  isFresh(name: string): boolean {
    const ensuredAtMs = this.#ensuredAtMs.get(name)
    return ensuredAtMs !== undefined && this.#nowMs() - ensuredAtMs < FRESH_MS
  }

  forget(name: string): void {
    this.#ensuredAtMs.delete(name)
  }

  /** The request belongs to all callers that join it, so no caller's signal ends it. */
  #ask(volume: Volume): Promise<VolumeAnswer> {
    const { name } = volume
    const within = timeoutSignal(DEADLINES_MS.ensureCache)
    const asked = this.#ensure(volume, within).finally(() => this.#asked.delete(name))
    this.#asked.set(name, asked)
    return asked
  }
}
