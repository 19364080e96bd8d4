import { z } from "zod"

/** The status with which a program ends: a byte, as the kernel has it. */
export const ExitStatus = z.int().min(0).max(255)

/** The name of a signal, as in SIGKILL. */
export const SignalName = z.string().regex(/^SIG[A-Z0-9+-]{1,16}$/, "must be the name of a signal")
