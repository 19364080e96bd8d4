/** The process that a readiness check can look at. */
export interface ReadinessTarget {
  readonly pid: number
  /** Calls with all output, from the first byte. The returned function ends that. */
  listen(listen: (chunk: Buffer) => void): () => void
}

/** A way to notice that a process is ready to serve. */
export interface Readiness {
  /** The missing condition, as the end of "it did not become ready: ". */
  readonly description: string
  /** Resolves when the process is ready. Rejects with the signal's reason when that fires. */
  wait(target: ReadinessTarget, signal: AbortSignal): Promise<void>
}
