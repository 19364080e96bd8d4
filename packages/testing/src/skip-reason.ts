/** Puts the reason into the title of a skipped suite or test, which carries it to the report. */
export const withReason = (title: string, reason: string): string => `${title} ${MARK}${reason}]`

export const hasReason = (title: string): boolean => title.includes(MARK)

const MARK = "[skipped: "
