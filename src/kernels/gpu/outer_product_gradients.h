/* What the kernels of the outer product's gradients have in common: their arguments, of which WANT_ROWS asks for dlhs and
 * WANT_COLUMNS for drhs. */
#if WANT_ROWS && WANT_COLUMNS
#define INPUTS BUFFER(const element, dy), BUFFER(const element, lhs), BUFFER(const element, rhs)
#define OUTPUTS BUFFER(element, dlhs), BUFFER(element, drhs)
#elif WANT_ROWS
#define INPUTS BUFFER(const element, dy), BUFFER(const element, rhs)
#define OUTPUTS BUFFER(element, dlhs)
#else
#define INPUTS BUFFER(const element, dy), BUFFER(const element, lhs)
#define OUTPUTS BUFFER(element, drhs)
#endif

#if WANT_ROWS
#define OPEN_ROWS()           \
    OPEN(const element, rhs); \
    OPEN(element, dlhs);
#else
#define OPEN_ROWS()
#endif

#if WANT_COLUMNS
#define OPEN_COLUMNS()        \
    OPEN(const element, lhs); \
    OPEN(element, drhs);
#else
#define OPEN_COLUMNS()
#endif
