/** Called at every step after which a crash must do no harm: tests crash there. */
export type FailPoint = (step: string) => void | Promise<void>
