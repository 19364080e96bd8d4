import type { Readiness, ReadinessTarget } from "../../processes/readiness/readiness.ts"

/** The part of the output that is searched, from its end. The line is short, and one of the first. */
const MAX_OUTPUT_CHARS = 16 * 1024

const LISTENING = /^opencode server listening on http:\/\/127\.0\.0\.1:(\d{1,5})\r?\n/m

/**
 * OpenCode is ready when it prints where it listens. The system chooses the port, so there is no race for one. The line
 * comes when OpenCode answers requests, some time after its port accepts connections.
 */
export class Listening implements Readiness {
  readonly description = "it did not say that it listens"
  /** The port of the latest process that listened. */
  port: number | undefined
  /** The number of processes that have listened. */
  lives = 0

  wait(target: ReadinessTarget, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      let said = ""
      const end = (settle: () => void) => {
        stopListening()
        signal.removeEventListener("abort", cancel)
        settle()
      }
      const cancel = () => end(() => reject(signal.reason))
      const stopListening = target.listen((chunk) => {
        said = (said + chunk.toString("latin1")).slice(-MAX_OUTPUT_CHARS)
        const port = LISTENING.exec(said)?.[1]
        if (port === undefined) return
        this.port = Number(port)
        this.lives++
        end(resolve)
      })
      signal.addEventListener("abort", cancel, { once: true })
    })
  }
}
