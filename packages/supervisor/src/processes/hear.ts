import type { Clock } from "./clock.ts"
import type { Launched } from "./launch.ts"
import { LogFile } from "./output/log-file.ts"
import { type Listen, Output } from "./output/output.ts"
import { ByteRing } from "./output/ring.ts"

/** Limit of the kept end of a command's output, for the error. */
export const COMMAND_LAST_OUTPUT_BYTES = 16 * 1024
/** Limit of a captured standard output. The rest is dropped, and the result says so. */
export const CAPTURE_BYTES = 1024 * 1024

/** The output of a command. */
export interface Said {
  readonly lastOutput: string
  /** Size of the whole output, of which `lastOutput` is the end. */
  readonly outputBytes: number
  /** Captured standard output; empty if it was not captured. */
  readonly stdout: string
  readonly isStdoutCut: boolean
}

export interface HearOptions {
  readonly clock: Clock
  readonly onOutput?: Listen | undefined
  readonly log?: { readonly path: string; readonly maxBytes?: number } | undefined
  /** Text for standard input, if that is open. */
  readonly input?: string | undefined
}

export interface Heard {
  /** Returns the output up to now. From here on only the log listens. */
  end(): Promise<Said>
}

export const hear = ({ output, stdin, stdout }: Launched, options: HearOptions): Heard => {
  const ring = new ByteRing(COMMAND_LAST_OUTPUT_BYTES)
  const stopListening = output.listen((chunk) => {
    ring.write(chunk)
    return options.onOutput?.(chunk)
  })
  if (options.log) writeLog(output, new LogFile({ ...options.log, clock: options.clock }))
  const captured = stdout && new Capture(stdout)
  // A command may end without reading all of its input.
  stdin?.on("error", () => {})
  stdin?.end(options.input ?? "")
  return {
    end: async () => {
      await captured?.end()
      stopListening()
      return {
        lastOutput: ring.text(),
        outputBytes: ring.writtenBytes,
        stdout: captured?.text() ?? "",
        isStdoutCut: captured?.isCut ?? false,
      }
    },
  }
}

const writeLog = (output: Output, log: LogFile): void => {
  output.listen((chunk) => log.write(chunk))
  void output.ended.then(() => log.close())
}

/** Collects standard output, up to a limit. */
class Capture {
  readonly #output: Output
  readonly #chunks: Buffer[] = []
  #bytes = 0
  isCut = false

  constructor(stdout: NonNullable<Launched["stdout"]>) {
    this.#output = new Output([stdout])
    this.#output.listen((chunk) => {
      const kept = chunk.subarray(0, CAPTURE_BYTES - this.#bytes)
      if (kept.length > 0) this.#chunks.push(kept)
      this.#bytes += kept.length
      if (kept.length < chunk.length) this.isCut = true
    })
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString("utf8")
  }

  async end(): Promise<void> {
    await this.#output.settled()
    this.#output.close()
  }
}
