import { StringDecoder } from "node:string_decoder"

/** Limit of a line, as a server may send one without an end. */
const MAX_LINE_CHARS = 4096

const PROGRESS =
  /^(?:remote: )?([A-Z][A-Za-z ]*):\s+(?:(\d+)% \((\d+)\/\d+\)|\d+)(?:, ([\d.]+) (bytes|KiB|MiB|GiB))?.*?(, done\.)?$/
const UNITS: Readonly<Record<string, number>> = {
  bytes: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
}
/** The phases that report how much was transferred. */
const TRANSFERS = ["Receiving objects", "Unpacking objects"]

export const isProgress = (line: string): boolean => PROGRESS.test(line)

export interface Listeners {
  /** Called with the progress: "receiving objects 45%". */
  readonly onProgress: (what: string) => void
  /** Called with every other line. */
  readonly onLine: (line: string) => void
}

/** Reads git's standard error, which has progress, redrawn over and over, and lines for people. */
export class GitOutput {
  /** Objects and bytes transferred in all, by git's own count. */
  objects = 0
  bytes = 0
  readonly #listeners: Listeners
  readonly #decoder = new StringDecoder("utf8")
  #rest = ""

  constructor(listeners: Listeners) {
    this.#listeners = listeners
  }

  readonly write = (chunk: Buffer): void => {
    const lines = (this.#rest + this.#decoder.write(chunk)).split(/[\r\n]/)
    this.#rest = (lines.pop() ?? "").slice(0, MAX_LINE_CHARS)
    for (const line of lines) this.#read(line.trimEnd())
  }

  #read(line: string): void {
    const [isOne, phase = "", percent, count, size, unit = "", isDone] = PROGRESS.exec(line) ?? []
    if (isOne === undefined) {
      if (line !== "") this.#listeners.onLine(line)
      return
    }
    if (isDone && TRANSFERS.includes(phase)) {
      this.objects += Number(count ?? 0)
      this.bytes += Math.round(Number(size ?? 0) * (UNITS[unit] ?? 0))
    }
    if (percent !== undefined) this.#listeners.onProgress(`${phase.toLowerCase()} ${percent}%`)
  }
}
