import type { DoctorCheckName, DoctorFinding } from "@berth/protocol/doctor"

/** What the checks look at. Passed in, so that a check never reads the environment itself. */
export interface DoctorHost {
  /** Where tools are looked for, in the form of $PATH. */
  readonly path: string
  /** Where the server keeps its files; it need not exist yet. */
  readonly dataDir: string
  /** The value of $DOCKER_HOST, if the caller has one. */
  readonly dockerHost?: string
}

/** One question to the host. `probe` may throw: that becomes a finding. It leaves nothing behind. */
export interface Check {
  readonly name: DoctorCheckName
  readonly why: string
  probe(host: DoctorHost, signal: AbortSignal): Promise<DoctorFinding>
}
