/** What a strategy may look at. */
export interface ReadinessTarget {
  readonly pid: number
  /** Everything that the process writes, from its first byte; the returned function ends that. */
  listen(listen: (chunk: Buffer) => void): () => void
}

/** How one notices that a process serves. */
export interface Readiness {
  /** What is waited for, as the end of "it did not become ready: ". */
  readonly description: string
  /** Resolves when it is ready; rejects with the signal's reason when that fires. */
  wait(target: ReadinessTarget, signal: AbortSignal): Promise<void>
}
