import type { Readiness, ReadinessTarget } from "../../processes/readiness/readiness.ts"

/** What is looked at of its output: the line is one of the first, and short. */
const MAX_OUTPUT_CHARS = 16 * 1024

const LISTENING = /^opencode server listening on http:\/\/127\.0\.0\.1:(\d{1,5})\r?\n/m

/**
 * Ready when it says where it listens. The system chooses the port, so nobody races for one; and the line
 * comes when it answers, which is some time after its port accepts connections.
 */
export class Listening implements Readiness {
  readonly description = "it did not say that it listens"
  /** Of the latest life that listened. */
  port: number | undefined
  /** How many lives of it listened. */
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
